kvlane_add_test(kernel_kv_gather LABEL kernels threads SOURCES kv_gather.cpp DEPENDS kernel_kv_gather)
