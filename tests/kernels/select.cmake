kvlane_add_test(kernel_topk LABEL kernels threads SOURCES topk.cpp DEPENDS kernel_topk)
