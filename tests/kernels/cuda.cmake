# CUDA kernels (kernels/*/cuda.cu) on the host executor of tests/support/cuda_host, without a GPU.
#
# To add a kernel NAME: write kernels/NAME/cuda.h and cuda.cu and a doctest file tests/kernels/cuda_NAME.cpp that
# calls the API of cuda.h only (tests/support/cuda_test.h has device arrays and the loop over seeds), and one line here:
#   kvlane_add_cuda_host_test(NAME SOURCES kernels/cuda_NAME.cpp ../kernels/NAME/cuda.cu ../kernels/NAME/kernel.cpp ...)
# (paths from tests/; every .cpp that the test needs, no libraries: each variant compiles all of it). It makes the
# programs and ctests cuda_NAME (plain), .asan (address and undefined), .tsan (thread), .msan (memory, clang 14) and,
# where nvcc built the kernels, .gpu, which is skipped where there is no GPU. HOST_ONLY leaves out the last (tests whose
# own code is a kernel); VARIANTS names those to make. nvcc's side: kernels/CMakeLists.txt.

set(cuda_host_missing)
if(KVLANE_CUDA STREQUAL "OFF")
  set(cuda_host_missing "KVLANE_CUDA is OFF")
elseif(KVLANE_SANITIZE)
  set(cuda_host_missing "this tree has sanitizers of its own")
elseif(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(cuda_host_missing "they are built with g++ and, for MemorySanitizer, clang++-14")
else()
  find_path(KVLANE_CUDA_INCLUDE vector_types.h HINTS ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES include
            NO_CMAKE_SYSTEM_PATH)
  find_path(KVLANE_CUDA_INCLUDE vector_types.h PATHS /usr/lib/cuda PATH_SUFFIXES include)
  find_package(Boost 1.74 QUIET COMPONENTS context)
  if(NOT KVLANE_CUDA_INCLUDE)
    set(cuda_host_missing "no CUDA headers")
  elseif(NOT TARGET Boost::context)
    set(cuda_host_missing "no Boost.Context")
  endif()
endif()

if(cuda_host_missing)
  message(STATUS "CUDA kernels are not tested on the host executor: ${cuda_host_missing}")
  add_test(NAME cuda_host COMMAND ${CMAKE_COMMAND} -E echo "skipped, CUDA kernels on the host: ${cuda_host_missing}")
  set_tests_properties(cuda_host PROPERTIES LABELS cuda-host SKIP_REGULAR_EXPRESSION "skipped, ")
  function(kvlane_add_cuda_host_test)
  endfunction()
  return()
endif()

set(cuda_host_dir ${CMAKE_CURRENT_SOURCE_DIR}/../support/cuda_host)
set(cuda_host_executor ${cuda_host_dir}/executor.cpp ${cuda_host_dir}/fiber.cpp ${cuda_host_dir}/mma.cpp
    ${cuda_host_dir}/runtime.cpp ${cuda_host_dir}/warp.cpp)
set(cuda_host_main ${CMAKE_CURRENT_SOURCE_DIR}/../support/test_main.cpp ${cuda_host_dir}/sanitizer_options.cpp)
add_custom_target(tests_cuda_host)

# One library a variant: the executor and doctest's main. Kernels of the variant get its flags by linking it.
set(cuda_host_flags_plain)
set(cuda_host_flags_asan -fsanitize=address,undefined -fno-sanitize-recover=all)
set(cuda_host_flags_tsan -fsanitize=thread)
set(cuda_host_flags_msan -fsanitize=memory -fsanitize-memory-track-origins)
foreach(variant plain asan tsan)
  # The executor's bookkeeping is no part of a kernel: ThreadSanitizer must not look at it.
  add_library(kvlane_cuda_host_executor_${variant} STATIC ${cuda_host_executor})
  add_library(kvlane_cuda_host_${variant} STATIC ${cuda_host_main})
  target_link_libraries(kvlane_cuda_host_${variant} PUBLIC kvlane_cuda_host_executor_${variant} kvlane_flags)
  target_link_libraries(kvlane_cuda_host_executor_${variant} PUBLIC Boost::context kvlane_flags)
  target_include_directories(kvlane_cuda_host_executor_${variant} SYSTEM PUBLIC ${KVLANE_CUDA_INCLUDE})
  target_compile_definitions(kvlane_cuda_host_executor_${variant} PUBLIC KVLANE_CUDA_HOST)
  # g++ does not know #pragma unroll.
  target_compile_options(kvlane_cuda_host_${variant} PUBLIC ${cuda_host_flags_${variant}} -Wno-unknown-pragmas)
  if(variant STREQUAL "plain")
    target_compile_options(kvlane_cuda_host_executor_plain PRIVATE -O2)
    target_compile_options(kvlane_cuda_host_plain PUBLIC -O1 -g1)
  else()
    # g++'s manual says to expect false warnings of this kind with sanitizers.
    target_compile_options(kvlane_cuda_host_executor_${variant} PUBLIC -O1 -g1 -fno-omit-frame-pointer
                           -Wno-maybe-uninitialized)
    target_link_options(kvlane_cuda_host_${variant} PUBLIC ${cuda_host_flags_${variant}})
  endif()
endforeach()
target_compile_options(kvlane_cuda_host_executor_asan PRIVATE ${cuda_host_flags_asan})
target_compile_definitions(kvlane_cuda_host_executor_tsan PRIVATE KVLANE_CUDA_HOST_TSAN)

# MemorySanitizer is clang's only: built by hand beside g++. Everything of ours is compiled with it.
find_program(KVLANE_CLANG NAMES clang++-14 clang++-15 clang++-16 clang++)
set(cuda_host_launcher ${CMAKE_CXX_COMPILER_LAUNCHER})
function(cuda_host_msan_object source list)
  file(RELATIVE_PATH relative ${CMAKE_SOURCE_DIR} ${source})
  set(object ${CMAKE_BINARY_DIR}/cuda_host_msan/${relative}.o)
  set(${list} ${${list}} ${object} PARENT_SCOPE)
  get_property(known GLOBAL PROPERTY cuda_host_msan_objects)
  if(object IN_LIST known)
    return()
  endif()
  set_property(GLOBAL APPEND PROPERTY cuda_host_msan_objects ${object})
  get_filename_component(folder ${object} DIRECTORY)
  file(MAKE_DIRECTORY ${folder})
  set(flags ${cuda_host_flags_msan})
  if(NOT source MATCHES "\\.cu$")
    # The standard library runs on the same stack and clears none of what these files leave there.
    list(APPEND flags -mllvm -msan-poison-stack=0)
  endif()
  add_custom_command(OUTPUT ${object} DEPENDS ${source} DEPFILE ${object}.d VERBATIM
    COMMENT "Building ${relative} with MemorySanitizer"
    COMMAND ${cuda_host_launcher} ${KVLANE_CLANG} -x c++ -std=c++20 -O1 -g1 -fno-omit-frame-pointer ${flags}
            -ffp-contract=off -DKVLANE_CUDA_HOST -I${CMAKE_SOURCE_DIR} -isystem ${KVLANE_CUDA_INCLUDE} -MD -MT ${object}
            -MF ${object}.d -c ${source} -o ${object})
endfunction()

function(kvlane_add_cuda_host_test name)
  cmake_parse_arguments(ARG "HOST_ONLY" "TIMEOUT" "SOURCES;LABEL;VARIANTS" ${ARGN})
  set(sources)
  foreach(source ${ARG_SOURCES})
    get_filename_component(source ${CMAKE_CURRENT_SOURCE_DIR}/../${source} ABSOLUTE)
    list(APPEND sources ${source})
    if(source MATCHES "\\.cu$")
      set_source_files_properties(${source} PROPERTIES LANGUAGE CXX)
    endif()
  endforeach()
  if(KVLANE_CUDA_FOUND AND NOT ARG_HOST_ONLY)
    set(target test_cuda_${name}_gpu)
    set(host_sources ${sources})
    list(FILTER host_sources EXCLUDE REGEX "\\.cu$")
    add_executable(${target} ${host_sources} ${CMAKE_CURRENT_SOURCE_DIR}/../support/cuda_gpu_main.cpp)
    target_link_libraries(${target} PRIVATE kvlane_flags kvlane_cuda_kernels)
    add_test(NAME cuda_${name}.gpu COMMAND ${target} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set_tests_properties(cuda_${name}.gpu PROPERTIES LABELS "gpu;${ARG_LABEL}" SKIP_RETURN_CODE 77 TIMEOUT 300
                         RESOURCE_LOCK gpu)
  endif()
  set(variants plain asan tsan msan)
  if(ARG_VARIANTS)
    set(variants ${ARG_VARIANTS})
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)  # a kernel that spins on another thread hangs in the executor
  endif()
  foreach(variant ${variants})
    set(target test_cuda_${name}_${variant})
    set(test cuda_${name}.${variant})
    if(variant STREQUAL "plain")
      set(test cuda_${name})
    endif()
    if(variant STREQUAL "msan")
      if(NOT KVLANE_CLANG)
        add_test(NAME ${test} COMMAND ${CMAKE_COMMAND} -E echo "skipped, MemorySanitizer: no clang")
        set_tests_properties(${test} PROPERTIES LABELS "cuda-host;${ARG_LABEL}" SKIP_REGULAR_EXPRESSION "skipped, ")
        continue()
      endif()
      set(objects)
      foreach(source ${sources} ${cuda_host_executor} ${cuda_host_main})
        cuda_host_msan_object(${source} objects)
      endforeach()
      set(program ${CMAKE_BINARY_DIR}/cuda_host_msan/${target})
      add_custom_command(OUTPUT ${program} DEPENDS ${objects} VERBATIM
        COMMAND ${KVLANE_CLANG} ${cuda_host_flags_msan} -o ${program} ${objects} $<TARGET_FILE:Boost::context>)
      add_custom_target(${target} ALL DEPENDS ${program})
      set(command ${program})
    else()
      add_executable(${target} ${sources})
      target_link_libraries(${target} PRIVATE kvlane_cuda_host_${variant})
      set(command ${target})
    endif()
    add_dependencies(tests_cuda_host ${target})
    add_test(NAME ${test} COMMAND ${command} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set_tests_properties(${test} PROPERTIES LABELS "cuda-host;${ARG_LABEL}" SKIP_RETURN_CODE 77 TIMEOUT ${ARG_TIMEOUT})
  endforeach()
endfunction()

kvlane_add_cuda_host_test(executor HOST_ONLY SOURCES kernels/cuda_executor.cpp kernels/cuda_matrix.cpp)
kvlane_add_cuda_host_test(topk SOURCES kernels/cuda_topk.cpp ../kernels/topk/cuda.cu)
