# The tests of CUDA kernels: each line serves the host executor and nvcc's kernels on a GPU (cuda.cmake, which tells how
# to add one), and tests/device_check. Paths are from tests/.

function(kvlane_cuda_test_sources out)
  set(sources)
  foreach(source ${ARGN})
    get_filename_component(source ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../${source} ABSOLUTE)
    list(APPEND sources ${source})
  endforeach()
  set(${out} ${sources} PARENT_SCOPE)
endfunction()

# kvlane_add_cuda_gpu_test(name library sources...): on a GPU, with the kernels that nvcc built; .cu files are the library's.
function(kvlane_add_cuda_gpu_test name library)
  kvlane_cuda_test_sources(sources ${ARGN} support/cuda_gpu_main.cpp)
  list(FILTER sources EXCLUDE REGEX "\\.cu$")
  set(target test_cuda_${name}_gpu)
  add_executable(${target} ${sources})
  target_link_libraries(${target} PRIVATE kvlane_flags ${library})
  add_test(NAME cuda_${name}.gpu COMMAND ${target} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(cuda_${name}.gpu PROPERTIES LABELS gpu SKIP_RETURN_CODE 77 TIMEOUT 300 RESOURCE_LOCK gpu)
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
  kvlane_add_cuda_gpu_test(gemm kvlane_cuda_gemm
    kernels/cuda_gemm.cpp ../kernels/gemm/kernel.cpp ../kernels/gemm/ref.cpp)
endif()
# Kernels state their budgets in cuda.h; every .cu that does is listed here.
kvlane_add_cuda_host_test(occupancy HOST_ONLY VARIANTS plain SOURCES kernels/cuda_occupancy.cpp
  ../kernels/topk/cuda.cu ../kernels/common/cuda_attend.cu ../kernels/common/cuda_read.cu
  ../kernels/index_split/cuda.cu ../kernels/hata/cuda.cu ../kernels/hata/kernel.cpp ../kernels/infinigen/cuda.cu
  ../kernels/infinigen/cuda_score.cu ../kernels/layer/cuda.cu ../kernels/layer/cuda_norm.cu ../kernels/layer/cuda_rope.cu
  ../kernels/layer/kernel.cpp ../kernels/kv_gather/cuda.cu ../kernels/prefill_attention/cuda.cu
  ../kernels/hack/cuda.cu ../kernels/hack/kernel.cpp)

kvlane_add_cuda_host_test(prefill_attention SOURCES kernels/cuda_prefill_attention.cpp
  ../kernels/prefill_attention/cuda.cu ../kernels/prefill_attention/kernel.cpp ../kernels/prefill_attention/ref.cpp
  ../kernels/common/kv_cache.cpp)
kvlane_add_cuda_host_test(hack SOURCES kernels/cuda_hack.cpp ../kernels/hack/cuda.cu ../kernels/hack/kernel.cpp
  ../kernels/hack/ref.cpp)

