# Sources of the calibration that device_check.sh runs: here and, on the host executor, in the main project.
function(kvlane_device_calibration_sources out)
  get_filename_component(root ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../.. ABSOLUTE)
  set(sources tests/device_check/device_calibration.cpp tests/device_check/device_summary.cpp
      sim/gpu/sample.cpp sim/gpu/kernel_work.cpp sim/scenario/sample_line.cpp calibrate/fit/ceilings.cpp
      kernels/common/kv_cache.cpp kernels/kv_gather/copies.cpp)
  foreach(name attention_calls hack_calls kernel_calls kernel_rates layer_calls load_gate machine memory_grid operands
          selection_calls session shape_list timer gpu/gpu_backend gpu/gpu_device gpu/gpu_machine gpu/gpu_memory)
    list(APPEND sources calibrate/measure/${name}.cpp)
  endforeach()
  foreach(name prefill_attention decode_attention sparse_attention kv_gather infinigen hata index_split hack layer topk gemm)
    if(EXISTS ${root}/kernels/${name}/kernel.cpp)
      list(APPEND sources kernels/${name}/kernel.cpp)
    endif()
  endforeach()
  list(TRANSFORM sources PREPEND ${root}/)
  set(${out} ${sources} PARENT_SCOPE)
endfunction()
