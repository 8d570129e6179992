kvlane_add_test(kernel_hack LABEL kernels
                SOURCES ${CMAKE_CURRENT_LIST_DIR}/hack_test.cpp ${CMAKE_CURRENT_LIST_DIR}/hack_attention_test.cpp
                DEPENDS kernel_hack)
