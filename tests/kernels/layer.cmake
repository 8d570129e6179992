kvlane_add_test(kernel_layer LABEL kernels
                SOURCES ${CMAKE_CURRENT_LIST_DIR}/layer_test.cpp ${CMAKE_CURRENT_LIST_DIR}/layer_torch_test.cpp
                DEPENDS kernel_layer)
