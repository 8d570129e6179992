#pragma once
// A GPU and a model of round numbers.

#include "sim/gpu/cost_model.h"

namespace kvlane::test {

// 100 TFLOP/s, 1 TB/s, 100 SMs; every efficiency 50 %; launches 10 us.
inline GpuSpec round_gpu() {
  GpuSpec gpu;
  gpu.name = "round";
  gpu.peak_flops = 100e12;
  gpu.memory_bandwidth = 1e12;
  gpu.sm_count = 100;
  gpu.pcie_h2d = gpu.pcie_d2h = Bandwidth::gbyte_per_sec(10);
  gpu.pcie_copy = Duration(10'000'000);
  gpu.host_memory = Bandwidth::gbyte_per_sec(100);
  gpu.gemm_t0 = gpu.prefill_t0 = gpu.prefix_t0 = gpu.decode_t0 = 10e-6;
  gpu.gemm_ec = gpu.gemm_em = gpu.prefill_ec = gpu.prefix_ec = gpu.decode_em = 0.5;
  gpu.elementwise_em = gpu.prefill_em = 0.5;
  gpu.gemm_p = 2;
  gpu.prefill_p = gpu.decode_p = 1;  // sums
  gpu.prefix_p = 1000;               // a hard maximum
  gpu.prefix_kappa = 20e-9;
  gpu.hack_unpack_rate = 1e12;
  gpu.small_kernel_t0 = 2e-6;
  gpu.host_step = 1e-3;
  gpu.host_gather_bandwidth = 20e9;
  gpu.all_reduce = {{2, {5e-6, 50e9}}, {4, {8e-6, 40e9}}};
  return gpu;
}

// 4 layers, hidden 1000, 10 heads of 100, 2 KV heads, FFN 4000 gated, vocabulary 10000.
inline ModelSpec round_model() {
  ModelSpec model;
  model.name = "round";
  model.hidden = 1000;
  model.vocabulary = 10'000;
  model.max_position = 100'000;
  LayerSpec layer;
  layer.query_heads = 10;
  layer.kv_heads = 2;
  layer.head_dim = layer.value_head_dim = layer.k_width = layer.v_width = 100;
  layer.attention_parameters = 1000 * (1000 + 200 + 200) + 1000 * 1000;
  layer.ffn_parameters = layer.ffn_active_parameters = 3 * 1000 * 4000;
  model.layers.assign(4, layer);
  return model;
}

inline double time_of(const CostModel& cost, const Work& work) {
  return to_seconds(cost.duration(work));
}

}  // namespace kvlane::test
