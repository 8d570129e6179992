# The CUDA sources of the kernels, for this project and for tests/device_check.

# kvlane_cuda_sources(on_sm75 on_sm80): lists of all but cuBLAS's; those of the second need instructions that sm_75 lacks.
function(kvlane_cuda_sources on_sm75 on_sm80)
  set(first common/cuda_device.cu common/cuda_read.cu common/cuda_attend.cu infinigen/cuda_score.cu kv_gather/cuda_copy.cu
      layer/cuda_norm.cu layer/cuda_rope.cu)
  foreach(name decode_attention sparse_attention kv_gather infinigen hata topk index_split layer)
    list(APPEND first ${name}/cuda.cu)
  endforeach()
  set(second prefill_attention/cuda.cu hack/cuda.cu)
  list(TRANSFORM first PREPEND ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/)
  list(TRANSFORM second PREPEND ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/)
  set(${on_sm75} ${first} PARENT_SCOPE)
  set(${on_sm80} ${second} PARENT_SCOPE)
endfunction()

# kvlane_add_cuda_kernels(): the libraries kvlane_cuda_kernels and, where there is cuBLAS, kvlane_cuda_gemm.
function(kvlane_add_cuda_kernels)
  kvlane_cuda_sources(on_sm75 on_sm80)
  kvlane_add_cuda_library(kvlane_cuda_kernels SM75 ${on_sm75} SM80 ${on_sm80})
  # Matrix products are cuBLAS's, whose headers not every CUDA has; the library is opened at run time (gemm/cuda.cu).
  set(folders ${CMAKE_CUDA_IMPLICIT_LINK_DIRECTORIES})
  list(FILTER folders EXCLUDE REGEX "/stubs/?$")  # nothing to open there at run time
  find_library(KVLANE_CUBLAS cublas HINTS ${folders})
  if(KVLANE_CUBLAS)
    kvlane_add_cuda_library(kvlane_cuda_gemm SM75 ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/gemm/cuda.cu)
    get_filename_component(cublas_folder ${KVLANE_CUBLAS} DIRECTORY)
    target_compile_definitions(kvlane_cuda_gemm_SM75 PRIVATE KVLANE_CUBLAS_FOLDER="${cublas_folder}")
    target_link_libraries(kvlane_cuda_gemm PUBLIC kvlane_cuda_kernels ${CMAKE_DL_LIBS})
  else()
    message(STATUS "No cuBLAS: no matrix products on the GPU")
  endif()
endfunction()
