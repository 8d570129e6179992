# device_check.sh without a GPU: its own doctest, the script with tools that only pretend, its build from a copy of the
# tree, and its calibration on the host executor.
set(device_check ${CMAKE_SOURCE_DIR}/tests/device_check)
add_executable(device_check_doctest ${device_check}/doctest_selftest.cpp)
target_link_libraries(device_check_doctest PRIVATE kvlane_flags)
add_test(NAME device_check.doctest COMMAND ${device_check}/doctest_selftest.sh $<TARGET_FILE:device_check_doctest>)
add_test(NAME device_check.script COMMAND ${device_check}/script_selftest.sh ${CMAKE_SOURCE_DIR})
set_tests_properties(device_check.doctest device_check.script PROPERTIES LABELS kernels TIMEOUT 120)
add_dependencies(tests_kernels device_check_doctest)

# The calibration itself, a few small shapes a kernel, and `kvlane calibrate fit` of what it leaves. cuda.cmake has said
# where there is no executor.
if(TARGET kvlane_cuda_host_plain AND TARGET kvlane)
  include(${CMAKE_SOURCE_DIR}/kernels/cuda_sources.cmake)
  include(${device_check}/calibration.cmake)
  kvlane_cuda_sources(on_sm75 on_sm80)
  set(host_kernels ${on_sm75} ${on_sm80})
  # The executor has its own of these.
  list(FILTER host_kernels EXCLUDE REGEX "/cuda_(device|copy)\\.cu$")
  kvlane_device_calibration_sources(host_sources)
  cuda_host_program(plain device_check_calibration
    "${host_sources};${host_kernels};${CMAKE_SOURCE_DIR}/kernels/gemm/ref.cpp;${cuda_host_dir}/libraries.cpp")
  add_test(NAME device_check.calibration COMMAND ${device_check}/calibration_selftest.sh ${CMAKE_SOURCE_DIR}
           $<TARGET_FILE:device_check_calibration> $<TARGET_FILE:kvlane>)
  set_tests_properties(device_check.calibration PROPERTIES LABELS "kernels;cuda-host" TIMEOUT 300)
endif()

# Its build, from a copy of the tree.
set(device_check_missing)
if(NOT KVLANE_CUDA_FOUND)
  set(device_check_missing "CUDA: ${KVLANE_CUDA_SUMMARY}")
elseif(KVLANE_SANITIZE)
  set(device_check_missing "this tree has sanitizers of its own")
elseif(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(device_check_missing "it is built with g++")
elseif(NOT CMAKE_GENERATOR STREQUAL "Ninja")
  set(device_check_missing "Ninja tells the headers that it reads, ${CMAKE_GENERATOR} does not")
endif()
if(device_check_missing)
  message(STATUS "The build of device_check.sh is not tested: ${device_check_missing}")
  add_test(NAME device_check.build COMMAND ${CMAKE_COMMAND} -E echo "skipped, device_check.sh's build: ${device_check_missing}")
  set_tests_properties(device_check.build PROPERTIES LABELS "kernels;cuda-host" SKIP_REGULAR_EXPRESSION "skipped, ")
else()
  add_test(NAME device_check.build COMMAND ${device_check}/build_selftest.sh ${CMAKE_SOURCE_DIR} ${KVLANE_NVCC}
           ${CMAKE_CXX_COMPILER} ${CMAKE_CUDA_COMPILER_LAUNCHER})
  set_tests_properties(device_check.build PROPERTIES LABELS "kernels;cuda-host" TIMEOUT 600)
endif()
