kvlane_add_test(kernel_topk LABEL kernels threads SOURCES topk.cpp DEPENDS kernel_topk)
kvlane_add_test(kernel_hata LABEL kernels threads SOURCES hata.cpp DEPENDS kernel_hata)
kvlane_add_test(kernel_infinigen LABEL kernels threads SOURCES infinigen.cpp DEPENDS kernel_infinigen)
kvlane_add_test(kernel_index_split LABEL kernels threads SOURCES index_split.cpp DEPENDS kernel_index_split)
# OpenBLAS's own threads are not built for ThreadSanitizer.
kvlane_add_test(kernel_gemm LABEL kernels SOURCES gemm.cpp DEPENDS kernel_gemm)
