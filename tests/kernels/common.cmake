kvlane_add_test(kernel_common LABEL kernels threads SOURCES common.cpp DEPENDS kernel_common)
