# calibrate/measure: the gate, the timer, the grid and the session under clocks of the tests; then every kernel of the grid
# once on the CPU.
set(measure_tests ${CMAKE_SOURCE_DIR}/tests/unit/calibrate)
kvlane_add_test(calibrate_measure LABEL unit kernels
                SOURCES ${measure_tests}/measure_gate.cpp ${measure_tests}/measure_machine.cpp
                        ${measure_tests}/measure_session.cpp ${measure_tests}/measure_device.cpp
                        ${measure_tests}/measure_shapes.cpp
                DEPENDS calibrate_measure scenario)

# The GPU device over the host executor, whose kernels and references it takes as sources.
set(sources kernels/cuda_calibrate.cpp support/cuda_host/libraries.cpp
  ../calibrate/measure/gpu/gpu_backend.cpp ../calibrate/measure/gpu/gpu_device.cpp
  ../calibrate/measure/gpu/gpu_machine.cpp ../calibrate/measure/gpu/gpu_memory.cpp)
foreach(name attention_calls grid hack_calls kernel_calls layer_calls machine memory_grid operands selection_calls session timer)
  list(APPEND sources ../calibrate/measure/${name}.cpp)
endforeach()
list(APPEND sources ../sim/gpu/sample.cpp ../sim/gpu/kernel_work.cpp ../kernels/common/kv_cache.cpp
  ../kernels/common/cuda_attend.cu ../kernels/common/cuda_read.cu ../kernels/infinigen/cuda_score.cu
  ../kernels/kv_gather/copies.cpp ../kernels/layer/cuda_norm.cu ../kernels/layer/cuda_rope.cu
  ../kernels/gemm/kernel.cpp ../kernels/gemm/ref.cpp)
foreach(name prefill_attention decode_attention sparse_attention kv_gather infinigen hata topk index_split hack layer)
  list(APPEND sources ../kernels/${name}/cuda.cu ../kernels/${name}/kernel.cpp ../kernels/${name}/ref.cpp)
endforeach()
kvlane_add_cuda_host_test(calibrate HOST_ONLY VARIANTS plain asan SOURCES ${sources})
