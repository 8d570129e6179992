# The CUDA sources of the kernels, for this project and for tests/device_check.

# kvlane_add_cuda_kernels(): the libraries kvlane_cuda_kernels and, where there are the headers of cuBLAS, kvlane_cuda_gemm.
function(kvlane_add_cuda_kernels)
  set(folder ${CMAKE_CURRENT_FUNCTION_LIST_DIR})
  # Those of the second list need instructions that sm_75 lacks.
  set(on_sm75 common/cuda_device.cu common/cuda_attend.cu common/cuda_read.cu infinigen/cuda_score.cu kv_gather/cuda_copy.cu layer/cuda_norm.cu
      layer/cuda_rope.cu)
  foreach(name decode_attention sparse_attention kv_gather infinigen hata topk index_split layer)
    list(APPEND on_sm75 ${name}/cuda.cu)
  endforeach()
  set(on_sm80 prefill_attention/cuda.cu hack/cuda.cu)
  list(TRANSFORM on_sm75 PREPEND ${folder}/)
  list(TRANSFORM on_sm80 PREPEND ${folder}/)
  kvlane_add_cuda_library(kvlane_cuda_kernels SM75 ${on_sm75} SM80 ${on_sm80})
  # Matrix products are cuBLAS's, whose headers not every CUDA has; the library is opened at run time (gemm/cuda.cu).
  find_library(KVLANE_CUBLAS cublas HINTS ${CMAKE_CUDA_IMPLICIT_LINK_DIRECTORIES})
  if(KVLANE_CUBLAS)
    kvlane_add_cuda_library(kvlane_cuda_gemm SM75 ${folder}/gemm/cuda.cu)
    get_filename_component(cublas_folder ${KVLANE_CUBLAS} DIRECTORY)
    target_compile_definitions(kvlane_cuda_gemm_SM75 PRIVATE KVLANE_CUBLAS_FOLDER="${cublas_folder}")
    target_link_libraries(kvlane_cuda_gemm PUBLIC kvlane_cuda_kernels ${CMAKE_DL_LIBS})
  else()
    message(STATUS "No cuBLAS: no matrix products on the GPU")
  endif()
endfunction()
