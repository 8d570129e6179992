#pragma once
// A GPU as numbers, each with where it comes from (scenarios/hardware/*.yaml).

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "sim/base/units.h"

namespace kvlane {

// How far a number can be trusted; the order is that of docs/contracts.md.
enum class Source : std::uint8_t { measured, table, extrapolated, datasheet, assumed };
const char* to_string(Source source);

struct GpuSpec {
  std::string name;
  // Datasheet.
  double peak_flops = 0;        // dense bf16/fp16 tensor FLOP/s
  double peak_int8_ops = 0;     // 0: no int8 tensor cores
  double memory_bandwidth = 0;  // bytes/s
  Bytes memory{0};
  std::int64_t sm_count = 0;
  Bytes l2{0};
  Bandwidth pcie_h2d;  // effective, pinned
  Bandwidth pcie_d2h;
  Duration pcie_copy{0};  // fixed cost of one copy
  Bandwidth host_memory;  // of one instance's host, for gathers and copies
  // GEMM: t = t0 + ((F/(ec P))^p + (B/(em BW))^p)^(1/p)
  double gemm_t0 = 0, gemm_ec = 0, gemm_em = 0, gemm_p = 0;
  // Prefill attention: t = t0 + 2 b nq d s (s + s0) / (ec P u) + bytes/(0.8 BW), u = w/(w +
  // w0)   2.2
  double prefill_t0 = 0, prefill_ec = 0, prefill_s0 = 0, prefill_w0 = 0;
  // Cached prefix: t = t0 + max(F/(ec P), kappa (kv + c/2 + 64))     2.3, kappa in seconds a token
  double prefix_t0 = 0, prefix_ec = 0, prefix_kappa = 0;
  // Decode attention: t = t0 + bytes/(em BW)                         2.4
  double decode_t0 = 0, decode_em = 0;
  // HACK's kernel unpacks 2-bit values on the way: t = t0 + max(bytes/(em BW), elements/rate)
  double hack_unpack_rate = 0;  // elements/s
  // Small kernels and launches.
  double small_kernel_t0 = 0;  // seconds each
  double elementwise_em = 0;   // share of the memory bandwidth
  double other_share = 0;      // norms, rope, activation, add: share of GEMM time
  // Host.
  double host_step = 0;              // seconds a decode iteration
  double host_gather_bandwidth = 0;  // bytes/s of collecting rows in host memory
  // Collectives (tensor parallelism): all-reduce alpha seconds and bytes/s by TP degree   2.6
  std::map<int, std::pair<double, double>> all_reduce;
  // Provenance of each of the above by key, and the class of each.
  std::map<std::string, std::string> source_text;
  std::map<std::string, Source> source;
};

// The least trusted class among the parameters; `assumed` when there are none.
Source weakest_source(const GpuSpec& gpu);

}  // namespace kvlane
