#pragma once
// A GPU as numbers, each with where it comes from (scenarios/hardware/*.yaml).

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/units.h"

namespace kvlane {

// How far a number can be trusted; the order is that of docs/contracts.md.
enum class Source : std::uint8_t { measured, table, extrapolated, datasheet, assumed };
const char* to_string(Source source);

// Which kernel a time belongs to; the words of the hardware file.
enum class KernelClass : std::uint8_t {
  gemm,
  prefill_attention,
  prefix_attention,
  decode_attention,
  selection,
  quantise,
  small,
  collective,
  copy,  // PCIe and host memory
  host   // scheduler, launches, gathers
};
inline constexpr std::size_t kKernelClasses = 10;
const char* to_string(KernelClass kernel);

// Sizes that a fit covers; beyond them the formula extrapolates.
struct DomainRange {
  std::string dimension;  // one of domain_dimensions(kernel)
  double low = 0, high = 0;
};
struct KernelFit {
  double error = 0;  // mean absolute relative error on shapes held out of the fit
  std::vector<DomainRange> domain;
};
// gemm: m, n, k; prefill_attention: tokens; prefix_attention: new_tokens, cached_tokens;
// decode_attention: sequences, kv_tokens (mean of a sequence); collective: bytes. Others: none.
const std::vector<std::string>& domain_dimensions(KernelClass kernel);

// A kernel beside matrices and dense attention, F operations, B bytes, N pieces of work
// (kernel_work.h): t = t0 + wake / (1 + (alone / B)^8) + max_p(F / flops, B / bandwidth, N item).
// 0: no such term. Little work runs on the thread that asks; more than `alone` bytes wake the
// others.
struct KernelCost {
  double t0 = 0;         // seconds
  double flops = 0;      // operations/s
  double bandwidth = 0;  // bytes/s
  double item = 0;       // seconds
  double wake = 0;       // seconds
  double alone = 0;      // bytes
  double p = 1;          // exponent of the smooth maximum
  bool operator==(const KernelCost&) const = default;
};

struct GpuSpec {
  std::string name;
  // Datasheet.
  double peak_flops = 0;        // dense bf16/fp16 tensor FLOP/s
  double peak_int8_ops = 0;     // 0: no int8 tensor cores
  double memory_bandwidth = 0;  // bytes/s
  Bytes memory{0};
  std::int64_t sm_count = 0;
  bool concurrent_streams = true;  // false: both streams take turns, as on the threads of a CPU
  Bytes l2{0};
  Bandwidth pcie_h2d;  // effective, pinned
  Bandwidth pcie_d2h;
  Duration pcie_copy{0};  // fixed cost of one copy
  Bandwidth host_memory;  // of one instance's host, for gathers and copies
  // max_p(a, b) = (a^p + b^p)^(1/p), the smooth maximum. F: FLOPs, B: bytes that DRAM moves.
  // GEMM: t = t0 + max_p(F/(ec P), B/(em BW))
  double gemm_t0 = 0, gemm_ec = 0, gemm_em = 0, gemm_p = 0;
  // The same for 8-bit floating-point weights and activations; all 0: the GPU has none, or nobody
  // measured it.
  double peak_fp8_flops = 0;
  double gemm_fp8_t0 = 0, gemm_fp8_ec = 0, gemm_fp8_em = 0, gemm_fp8_p = 0;
  // Prefill attention, s the tokens rounded up to tiles of 64, h query heads, w = h s / 128 / SMs
  // the tiles of 128 queries a multiprocessor:
  //   t = t0 + max_p(2 h d s (s + s0) / (ec P) (1 + w0/w), B/(em BW))
  double prefill_t0 = 0, prefill_ec = 0, prefill_em = 0, prefill_s0 = 0, prefill_w0 = 0,
         prefill_p = 0;
  // Cached prefix: t = t0 + max_p(F/(ec P), kappa (kv + c/2 + 64)), kappa in seconds a key
  double prefix_t0 = 0, prefix_ec = 0, prefix_kappa = 0, prefix_p = 0;
  // Decode attention: t = t0 + max_p(B/(em BW), block b h_kv, walk kv), b sequences of kv tokens;
  // the last term only where a kv head serves one query head, which some kernels do not split.
  double decode_t0 = 0, decode_em = 0, decode_block = 0, decode_walk = 0, decode_p = 0;
  // Share of peak_flops with which decode attention computes, a further term of that maximum; 0:
  // the bytes hide it, as on GPUs.
  double decode_ec = 0;
  // The same constants for 8-bit KV; 0: as for 16 bit.
  double decode_fp8_t0 = 0, decode_fp8_em = 0;
  // A chunk of a prompt and decodes in one launch: t = t0 + max(F/(ec P) + B/(em BW), kappa of the
  // longest); em 0: nobody measured it.
  double mixed_em = 0;
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
  // Kernels of selection, quantisation and layers as measured, by their word in samples; those that
  // are not here rest on the constants above. A CPU (`calibrate kernels --device cpu`) is a GPU
  // whose multiprocessors are its threads, whose L2 is the last-level cache and whose tensor peak
  // is a large fp32 product's.
  std::map<std::string, KernelCost> costs;
  // What a fit leaves open, and where it was made, by kernel class.
  std::map<KernelClass, KernelFit> fits;
  // Provenance of each of the above by key, and the class of each.
  std::map<std::string, std::string> source_text;
  std::map<std::string, Source> source;
};

// The least trusted class among the parameters; `assumed` when there are none.
Source weakest_source(const GpuSpec& gpu);

}  // namespace kvlane
