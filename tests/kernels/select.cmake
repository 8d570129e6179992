kvlane_add_test(kernel_topk LABEL kernels threads SOURCES topk.cpp DEPENDS kernel_topk)
kvlane_add_test(kernel_hata LABEL kernels threads SOURCES hata.cpp DEPENDS kernel_hata)
