# device_check.sh without a GPU: its own doctest, the script with tools that only pretend, its build from a copy of the
# tree, and its calibration on the host executor.
set(device_check ${CMAKE_SOURCE_DIR}/tests/device_check)
add_executable(device_check_doctest ${device_check}/doctest_selftest.cpp)
target_link_libraries(device_check_doctest PRIVATE kvlane_flags)
add_test(NAME device_check.doctest COMMAND ${device_check}/doctest_selftest.sh $<TARGET_FILE:device_check_doctest>)
add_test(NAME device_check.script COMMAND ${device_check}/script_selftest.sh ${CMAKE_SOURCE_DIR})
set_tests_properties(device_check.doctest device_check.script PROPERTIES LABELS kernels TIMEOUT 120)
add_dependencies(tests_kernels device_check_doctest)
