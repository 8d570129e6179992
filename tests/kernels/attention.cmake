kvlane_add_test(kernel_decode_attention LABEL kernels threads SOURCES decode_attention.cpp
                DEPENDS kernel_decode_attention kernel_sparse_attention)
kvlane_add_test(kernel_prefill_attention LABEL kernels threads SOURCES prefill_attention.cpp
                DEPENDS kernel_prefill_attention kernel_decode_attention)
