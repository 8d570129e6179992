kvlane_add_test(policy LABEL unit SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/policy_full.cpp
                ${CMAKE_CURRENT_SOURCE_DIR}/policy_selective.cpp ${CMAKE_CURRENT_SOURCE_DIR}/policy_order.cpp
                DEPENDS policy)
