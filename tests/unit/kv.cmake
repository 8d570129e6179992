kvlane_add_test(kv LABEL unit
                SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/kv_layout.cpp ${CMAKE_CURRENT_SOURCE_DIR}/kv_mask.cpp
                        ${CMAKE_CURRENT_SOURCE_DIR}/kv_importance.cpp
                        ${CMAKE_CURRENT_SOURCE_DIR}/kv_payload.cpp
                DEPENDS kv)
