#pragma once
// What the tests of compute share: a model, a machine with a price for every kernel, a trace that
// is kept.

#include <cstdint>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "sim/gpu/cost_model.h"
#include "sim/gpu/kernel_work.h"
#include "sim/port/trace.h"
#include "sim/scenario/model_file.h"

namespace kvlane::live::test {

struct Sink final : TraceSink {
  std::vector<TraceRecord> records;
  void record(const TraceRecord& record) override { records.push_back(record); }
};

inline ModelSpec shipped_model(const std::string& name) {
  const std::string path = "scenarios/models/" + name + ".yaml";
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path);
  return read_model(std::string(std::istreambuf_iterator<char>(file), {}), path);
}

// 100 GFLOP/s and 10 GB/s; whatever is not a matrix product or dense attention goes by its bytes.
inline GpuSpec plain_cpu() {
  GpuSpec gpu;
  gpu.name = "plain";
  gpu.peak_flops = 100e9;
  gpu.memory_bandwidth = 10e9;
  gpu.sm_count = 1;
  gpu.pcie_h2d = gpu.pcie_d2h = gpu.host_memory = Bandwidth::gbyte_per_sec(5);
  gpu.pcie_copy = Duration(1'000'000);
  gpu.gemm_ec = gpu.gemm_em = gpu.prefill_ec = gpu.prefill_em = gpu.prefix_ec = gpu.decode_em = 1;
  gpu.elementwise_em = gpu.gemm_p = gpu.prefill_p = gpu.prefix_p = gpu.decode_p = 1;
  gpu.hack_unpack_rate = 1e12;
  gpu.host_step = 1e-4;
  gpu.host_gather_bandwidth = 2e9;
  gpu.all_reduce = {{2, {1e-6, 10e9}}};
  for (const std::string& kernel : costed_kernels()) gpu.costs[kernel].bandwidth = 10e9;
  return gpu;
}

inline Work work_of(WorkKind kind, std::int64_t batch = 2, std::int64_t tokens = 512) {
  Work work;
  work.kind = kind;
  work.layer = LayerId(1U);
  work.batch = batch;
  work.new_tokens = tokens;
  work.context_tokens = batch * tokens;
  work.selector_bytes = 18;
  work.hashed = true;
  switch (kind) {
    case WorkKind::prefill_layer:
      work.batch = 1;
      work.context_tokens = tokens;
      break;
    case WorkKind::decode_attention:
      work.attended_rows = batch * tokens * 3;
      break;
    case WorkKind::quantise:
    case WorkKind::dequantise:
      work.elements = tokens * 2 * 3 * 64;
      work.kv_bits = 8;
      break;
    case WorkKind::gather_host:
      work.bytes = Bytes(3 << 20);
      break;
    default:
      break;
  }
  return work;
}

inline constexpr WorkKind kAllKinds[] = {
    WorkKind::prefill_layer, WorkKind::prefill_head,     WorkKind::build_metadata,
    WorkKind::quantise,      WorkKind::dequantise,       WorkKind::decode_qkv,
    WorkKind::select,        WorkKind::decode_attention, WorkKind::decode_ffn,
    WorkKind::decode_head,   WorkKind::host_step,        WorkKind::gather_host};

}  // namespace kvlane::live::test
