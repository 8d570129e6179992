kvlane_add_test(kernel_decode_attention LABEL kernels threads SOURCES decode_attention.cpp
                DEPENDS kernel_decode_attention kernel_sparse_attention)
kvlane_add_test(kernel_prefill_attention LABEL kernels threads SOURCES prefill_attention.cpp
                DEPENDS kernel_prefill_attention kernel_decode_attention)
kvlane_add_test(kernel_attention_torch LABEL kernels SOURCES attention_torch.cpp
                DEPENDS kernel_prefill_attention kernel_decode_attention kernel_sparse_attention kernel_topk)
