kvlane_add_test(des_virtual_loop LABEL unit SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/des_virtual_loop.cpp DEPENDS des)
