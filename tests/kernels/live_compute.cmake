# What a stream of a live run does with a GPU, over the host executor: one thread, which is all that it has.
set(sources kernels/cuda_live_compute.cpp support/cuda_host/libraries.cpp)
foreach(name kernel_crew selection_chain work_calls work_kernels gpu/cuda_kernels gpu/cuda_mover)
  list(APPEND sources ../calibrate/live/compute/${name}.cpp)
endforeach()
foreach(name attention_calls hack_calls kernel_calls layer_calls operands selection_calls gpu/gpu_backend)
  list(APPEND sources ../calibrate/measure/${name}.cpp)
endforeach()
foreach(name cost_model gpu_spec kernel_seconds kernel_usage kernel_work layer_cost sample)
  list(APPEND sources ../sim/gpu/${name}.cpp)
endforeach()
list(APPEND sources ../sim/kv/payload.cpp ../kernels/common/kv_cache.cpp
  ../kernels/common/cuda_attend.cu ../kernels/common/cuda_read.cu ../kernels/infinigen/cuda_score.cu
  ../kernels/layer/cuda_norm.cu ../kernels/layer/cuda_rope.cu ../kernels/gemm/kernel.cpp ../kernels/gemm/ref.cpp)
foreach(name prefill_attention decode_attention sparse_attention infinigen hata topk index_split hack layer)
  list(APPEND sources ../kernels/${name}/cuda.cu ../kernels/${name}/kernel.cpp ../kernels/${name}/ref.cpp)
endforeach()
kvlane_add_cuda_host_test(live_compute HOST_ONLY VARIANTS plain asan SOURCES ${sources})
