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
  set(cuda_version)
  if(KVLANE_CUDA_INCLUDE AND EXISTS ${KVLANE_CUDA_INCLUDE}/cuda_runtime_api.h)
    file(STRINGS ${KVLANE_CUDA_INCLUDE}/cuda_runtime_api.h cuda_version REGEX "define CUDART_VERSION +[0-9]+")
    string(REGEX REPLACE ".*CUDART_VERSION +" "" cuda_version "${cuda_version}")
  endif()
  if(NOT KVLANE_CUDA_INCLUDE)
    set(cuda_host_missing "no CUDA headers")
  elseif(NOT cuda_version GREATER_EQUAL 12020)
    set(cuda_host_missing "the CUDA headers in ${KVLANE_CUDA_INCLUDE} are older than 12.2")
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
set(cuda_host_main ${CMAKE_CURRENT_SOURCE_DIR}/../support/test_main.cpp)
# Compiled into every program: nothing refers to what it defines, so a library would not hand it over.
set(cuda_host_options ${cuda_host_dir}/sanitizer_options.cpp)
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
  target_sources(kvlane_cuda_host_${variant} INTERFACE ${cuda_host_options})
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

# ThreadSanitizer of g++ 12 does not start where Linux randomises 32 bits of addresses.
find_program(KVLANE_SETARCH setarch)
if(KVLANE_SETARCH AND NOT DEFINED KVLANE_FIXED_ADDRESSES)
  execute_process(COMMAND ${KVLANE_SETARCH} -R true RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
  set(KVLANE_FIXED_ADDRESSES ON)
  if(failed)
    set(KVLANE_FIXED_ADDRESSES OFF)
  endif()
  set(KVLANE_FIXED_ADDRESSES ${KVLANE_FIXED_ADDRESSES} CACHE INTERNAL "setarch -R works")
endif()

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

# cuda_host_program(variant target sources [NO_MAIN]): builds the program, sets `cuda_host_command` for add_test.
function(cuda_host_program variant target sources)
  foreach(source ${sources})
    if(source MATCHES "\\.cu$")
      # -Wsign-conversion: g++ warns of every array whose extent is an int template argument.
      set_source_files_properties(${source} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS -Wno-sign-conversion)
    endif()
  endforeach()
  if(variant STREQUAL "msan")
    if("NO_MAIN" IN_LIST ARGN)
      set(main)
    else()
      set(main ${cuda_host_main})
    endif()
    set(objects)
    foreach(source ${sources} ${cuda_host_executor} ${main} ${cuda_host_options})
      cuda_host_msan_object(${source} objects)
    endforeach()
    set(program ${CMAKE_BINARY_DIR}/cuda_host_msan/${target})
    add_custom_command(OUTPUT ${program} DEPENDS ${objects} VERBATIM
      COMMAND ${KVLANE_CLANG} ${cuda_host_flags_msan} -o ${program} ${objects} $<TARGET_FILE:Boost::context>)
    add_custom_target(${target} ALL DEPENDS ${program})
    set(cuda_host_command ${program} PARENT_SCOPE)
  else()
    add_executable(${target} ${sources})
    target_link_libraries(${target} PRIVATE kvlane_cuda_host_${variant})
    set(cuda_host_command ${target} PARENT_SCOPE)
    if(variant STREQUAL "tsan" AND KVLANE_FIXED_ADDRESSES)
      set(cuda_host_command ${KVLANE_SETARCH} -R $<TARGET_FILE:${target}> PARENT_SCOPE)
    endif()
  endif()
  add_dependencies(tests_cuda_host ${target})
endfunction()

# A ctest in place of those that need a clang which is not there.
function(cuda_host_no_msan test)
  add_test(NAME ${test} COMMAND ${CMAKE_COMMAND} -E echo "skipped, MemorySanitizer: no clang")
  set_tests_properties(${test} PROPERTIES LABELS "cuda-host;${ARGN}" SKIP_REGULAR_EXPRESSION "skipped, ")
endfunction()

function(kvlane_add_cuda_host_test name)
  cmake_parse_arguments(ARG "HOST_ONLY" "TIMEOUT" "SOURCES;LABEL;VARIANTS" ${ARGN})
  set(sources)
  foreach(source ${ARG_SOURCES})
    get_filename_component(source ${CMAKE_CURRENT_SOURCE_DIR}/../${source} ABSOLUTE)
    list(APPEND sources ${source})
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
    set(test cuda_${name}.${variant})
    if(variant STREQUAL "plain")
      set(test cuda_${name})
    elseif(variant STREQUAL "msan" AND NOT KVLANE_CLANG)
      cuda_host_no_msan(${test} ${ARG_LABEL})
      continue()
    endif()
    cuda_host_program(${variant} test_cuda_${name}_${variant} "${sources}")
    add_test(NAME ${test} COMMAND ${cuda_host_command} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set_tests_properties(${test} PROPERTIES LABELS "cuda-host;${ARG_LABEL}" SKIP_RETURN_CODE 77 TIMEOUT ${ARG_TIMEOUT})
  endforeach()
endfunction()

kvlane_add_cuda_host_test(executor HOST_ONLY SOURCES kernels/cuda_executor.cpp kernels/cuda_matrix.cpp)
kvlane_add_cuda_host_test(topk SOURCES kernels/cuda_topk.cpp ../kernels/topk/cuda.cu)
kvlane_add_cuda_host_test(kv_gather SOURCES kernels/cuda_kv_gather.cpp ../kernels/kv_gather/cuda.cu
  ../kernels/kv_gather/copies.cpp ../kernels/kv_gather/kernel.cpp ../kernels/kv_gather/ref.cpp ../kernels/common/kv_cache.cpp)
kvlane_add_cuda_host_test(layer SOURCES kernels/cuda_layer.cpp ../kernels/layer/cuda.cu
  ../kernels/layer/cuda_norm.cu ../kernels/layer/cuda_rope.cu ../kernels/layer/kernel.cpp ../kernels/layer/ref.cpp)
kvlane_add_cuda_host_test(infinigen SOURCES kernels/cuda_infinigen.cpp ../kernels/infinigen/cuda.cu
  ../kernels/infinigen/cuda_score.cu ../kernels/infinigen/kernel.cpp ../kernels/infinigen/ref.cpp)
kvlane_add_cuda_host_test(hata SOURCES kernels/cuda_hata.cpp ../kernels/hata/cuda.cu
  ../kernels/hata/kernel.cpp ../kernels/hata/ref.cpp)
kvlane_add_cuda_host_test(index_split SOURCES kernels/cuda_index_split.cpp ../kernels/index_split/cuda.cu
  ../kernels/index_split/kernel.cpp ../kernels/index_split/ref.cpp)
kvlane_add_cuda_host_test(attention SOURCES kernels/cuda_attention.cpp
  ../kernels/common/cuda_attend.cu ../kernels/decode_attention/cuda.cu ../kernels/sparse_attention/cuda.cu
  ../kernels/decode_attention/kernel.cpp ../kernels/decode_attention/ref.cpp
  ../kernels/sparse_attention/kernel.cpp ../kernels/sparse_attention/ref.cpp ../kernels/common/kv_cache.cpp)
if(TARGET kvlane_cuda_gemm)  # a library's code: nothing for the executor
  add_executable(test_cuda_gemm_gpu ../kernels/cuda_gemm.cpp ../../kernels/gemm/kernel.cpp ../../kernels/gemm/ref.cpp
                 ../support/cuda_gpu_main.cpp)
  target_link_libraries(test_cuda_gemm_gpu PRIVATE kvlane_flags kvlane_cuda_gemm)
  add_test(NAME cuda_gemm.gpu COMMAND test_cuda_gemm_gpu WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(cuda_gemm.gpu PROPERTIES LABELS gpu SKIP_RETURN_CODE 77 TIMEOUT 300 RESOURCE_LOCK gpu)
endif()
# Kernels state their budgets in cuda.h; every .cu that does is listed here.
kvlane_add_cuda_host_test(occupancy HOST_ONLY VARIANTS plain SOURCES kernels/cuda_occupancy.cpp
  ../kernels/topk/cuda.cu ../kernels/common/cuda_attend.cu
  ../kernels/index_split/cuda.cu ../kernels/hata/cuda.cu ../kernels/hata/kernel.cpp ../kernels/infinigen/cuda.cu
  ../kernels/infinigen/cuda_score.cu ../kernels/layer/cuda.cu ../kernels/layer/cuda_norm.cu ../kernels/layer/cuda_rope.cu
  ../kernels/layer/kernel.cpp ../kernels/kv_gather/cuda.cu ../kernels/prefill_attention/cuda.cu
  ../kernels/hack/cuda.cu ../kernels/hack/kernel.cpp)

kvlane_add_cuda_host_test(prefill_attention SOURCES kernels/cuda_prefill_attention.cpp
  ../kernels/prefill_attention/cuda.cu ../kernels/prefill_attention/kernel.cpp ../kernels/prefill_attention/ref.cpp
  ../kernels/common/kv_cache.cpp)
kvlane_add_cuda_host_test(hack SOURCES kernels/cuda_hack.cpp ../kernels/hack/cuda.cu ../kernels/hack/kernel.cpp
  ../kernels/hack/ref.cpp)

# Faults planted in small kernels: each is caught by the detector that the table names, with words that name the
# place; the sound versions pass under all of them. A detector is believed once it has failed something.
set(planted_sources)
foreach(name main blocks warps bins copies)
  list(APPEND planted_sources ${CMAKE_CURRENT_SOURCE_DIR}/planted_${name}.cpp)
endforeach()
set(planted_variants plain asan tsan msan)
foreach(variant ${planted_variants})
  if(variant STREQUAL "msan" AND NOT KVLANE_CLANG)
    cuda_host_no_msan(planted.sound.msan planted-fault)
    continue()
  endif()
  cuda_host_program(${variant} test_planted_${variant} "${planted_sources}" NO_MAIN)
  set(planted_${variant} ${cuda_host_command})
  add_test(NAME planted.sound.${variant} COMMAND ${cuda_host_command} sound)
  set_tests_properties(planted.sound.${variant} PROPERTIES LABELS "cuda-host;planted-fault" TIMEOUT 120)
endforeach()
function(planted_fault name variant words)
  if(NOT planted_${variant})
    return()
  endif()
  # Three orders are enough for a sanitizer.
  set(orders 30)
  if(NOT variant STREQUAL "plain")
    set(orders 3)
  endif()
  add_test(NAME planted.${name}.${variant} COMMAND ${planted_${variant}} ${name} ${orders})
  set_tests_properties(planted.${name}.${variant} PROPERTIES LABELS "cuda-host;planted-fault" TIMEOUT 120
                       PASS_REGULAR_EXPRESSION "${words}")
endfunction()
set(race "data race [^ ]*planted_")
planted_fault(barrier_before_read tsan "${race}blocks.cpp")
planted_fault(barrier_before_read plain "wrong in [0-9]+ of 30 orders")
planted_fault(barrier_before_reuse tsan "${race}blocks.cpp")
planted_fault(barrier_before_reuse plain "wrong in [0-9]+ of 30 orders")
planted_fault(barrier_after_last tsan "${race}blocks.cpp")
planted_fault(fence_before_merge tsan "${race}blocks.cpp")
planted_fault(blocks_share_element tsan "${race}blocks.cpp")
planted_fault(row_past_the_end asan "heap-buffer-overflow.*planted_blocks.cpp")
planted_fault(barrier_in_branch plain "barrier divergence: thread [0-9]+ waits at planted_blocks.cpp:.* at planted_blocks.cpp:")
planted_fault(return_before_barrier plain "barrier divergence: .* at planted_blocks.cpp:")
planted_fault(output_missing msan "use-of-uninitialized-value")
planted_fault(output_missing plain "wrong in 30 of 30 orders")
planted_fault(syncwarp tsan "${race}warps.cpp")
planted_fault(syncwarp plain "wrong in [0-9]+ of 30 orders")
planted_fault(vote_for_syncwarp tsan "${race}warps.cpp")
planted_fault(narrow_mask plain "__shfl_xor_sync: (mask 0xffff lacks|reads lane 16 outside mask 0xffff).*planted_warps.cpp:")
planted_fault(mask_with_returned plain "returned.* at planted_warps.cpp:")
planted_fault(half_at_barrier plain "deadlock, nothing can run; .*wait in __s.*planted_warps.cpp:")
planted_fault(wrong_xor_offset plain "wrong in 30 of 30 orders")
planted_fault(wrong_quad plain "wrong in 30 of 30 orders")
planted_fault(lane_outside_mask plain "__shfl_sync: reads lane 8 outside mask 0xff at planted_warps.cpp:")
planted_fault(plain_increment tsan "${race}bins.cpp")
planted_fault(uninitialised_shared msan "use-of-uninitialized-value.*planted_bins.cpp")
planted_fault(uninitialised_shared plain "wrong in 30 of 30 orders")
planted_fault(static_index_too_far asan "planted_bins.cpp:.*index 24 out of bounds")
planted_fault(dynamic_index_too_far asan "heap-buffer-overflow.*planted_bins.cpp")
planted_fault(tie_off_by_one plain "wrong in [0-9]+ of 30 orders")
planted_fault(tie_off_by_one tsan "${race}bins.cpp")
planted_fault(wait_too_weak plain "returned with copies in flight.* at planted_copies.cpp:")
planted_fault(barrier_after_wait tsan "${race}copies.cpp|data race.*cuda_host/ptx.h")
planted_fault(barrier_before_copy tsan "${race}copies.cpp|data race.*cuda_host/ptx.h")
planted_fault(copy_past_the_end asan "heap-buffer-overflow.*(planted_copies.cpp|cuda_host/ptx.h)")
planted_fault(misaligned_load asan "misaligned address|misaligned")
