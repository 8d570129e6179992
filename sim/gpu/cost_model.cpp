// The kernels: formulas of sim/gpu/gpu_spec.h, one function each.

#include "sim/gpu/cost_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/base/check.h"
#include "sim/gpu/kernel_work.h"
#include "sim/gpu/portable_math.h"

namespace kvlane {
namespace {

double real(std::int64_t v) { return static_cast<double>(v); }

// Keys that `chunk` queries after `cached` tokens look at in all: half of the chunk on average, the
// convention of the published fits, and never more than `window` a query.
double keys_visited(double chunk, double cached, double window) {
  if (window <= 0 || cached + chunk <= window) return chunk * (cached + chunk / 2);
  const double growing = std::max(window - cached, 0.0);
  return growing * (cached + growing / 2) + (chunk - growing) * window;
}

// (a^p + b^p)^(1/p) without overflow.
double smooth_max(double a, double b, double p) {
  const double high = std::max(a, b);
  if (high <= 0) return 0;
  const double ratio = std::min(a, b) / high;
  return high * portable::pow(1 + portable::pow(ratio, p), 1 / p);
}

constexpr std::int64_t kPrefillTile = 64;  // keys that a block of queries takes at a time

}  // namespace

CostModel::CostModel(GpuSpec gpu, ModelSpec model, int tp, bool windows_as_full,
                     const KernelTable* table, const KernelFactors& factors)
    : gpu_(std::move(gpu)),
      model_(std::move(model)),
      tp_(tp),
      windows_as_full_(windows_as_full),
      table_(table),
      factors_(factors) {
  KVLANE_CHECK(tp >= 1, "tensor-parallel degree {}", tp);
  KVLANE_CHECK(tp == 1 || gpu_.all_reduce.contains(tp), "{} has no all-reduce over {} ranks",
               gpu_.name, tp);
  KVLANE_CHECK(gpu_.peak_flops > 0 && gpu_.memory_bandwidth > 0 && gpu_.gemm_ec > 0 &&
                   gpu_.gemm_em > 0 && gpu_.gemm_p > 0 && gpu_.prefill_ec > 0 &&
                   gpu_.prefill_em > 0 && gpu_.prefill_p > 0 && gpu_.prefix_ec > 0 &&
                   gpu_.prefix_p > 0 && gpu_.decode_em > 0 && gpu_.decode_p > 0 &&
                   gpu_.elementwise_em > 0 && gpu_.sm_count > 0 && gpu_.hack_unpack_rate > 0,
               "the parameters of {} are not complete", gpu_.name);
}

double CostModel::corrected(const KernelShape& shape, double formula) const {
  std::optional<double> factor;
  if (table_ != nullptr) {
    factor = table_->factor(shape);
    usage_.look_up(shape, factor.has_value());
  }
  if (factor) return formula * *factor;
  switch (domain_dimensions(shape.kernel).size()) {
    case 1:
      usage_.sizes(shape.kernel, {real(shape.sizes[0])});
      break;
    case 2:
      usage_.sizes(shape.kernel, {real(shape.sizes[0]), real(shape.sizes[1])});
      break;
    default:
      usage_.sizes(shape.kernel,
                   {real(shape.sizes[0]), real(shape.sizes[1]), real(shape.sizes[2])});
  }
  return formula;
}

// A factor of one leaves the bits alone.
double CostModel::counted(KernelClass kernel, double seconds) const {
  if (seconds > 0) usage_.mark(kernel);
  const double factor = factors_[static_cast<std::size_t>(kernel)];
  return factor == 1 ? seconds : seconds * factor;
}

double CostModel::roofline(double flops, double bytes) const {
  const bool fp8 = fp8_gemm();
  const double ec = fp8 ? gpu_.gemm_fp8_ec * gpu_.peak_fp8_flops : gpu_.gemm_ec * gpu_.peak_flops;
  const double em = fp8 ? gpu_.gemm_fp8_em : gpu_.gemm_em;
  return smooth_max(flops / ec, bytes / (em * gpu_.memory_bandwidth),
                    fp8 ? gpu_.gemm_fp8_p : gpu_.gemm_p);
}

double CostModel::gemm(std::int64_t m, std::int64_t n, std::int64_t k) const {
  if (m <= 0 || n <= 0 || k <= 0) return 0;
  return corrected({KernelClass::gemm, {m, n, k}, {fp8_gemm() ? 8 : 16, 0, 0}},
                   gemm_formula(m, n, k));
}

double CostModel::gemm_formula(std::int64_t m, std::int64_t n, std::int64_t k) const {
  const bool fp8 = fp8_gemm();
  const double flops = 2 * real(m) * real(n) * real(k);
  // 8-bit kernels read 8-bit activations and write 16 bit.
  const double bytes = real(n) * real(k) * model_.weight_bytes + real(m) * real(k) * (fp8 ? 1 : 2) +
                       2 * real(m) * real(n);
  return (fp8 ? gpu_.gemm_fp8_t0 : gpu_.gemm_t0) + roofline(flops, bytes);
}

bool CostModel::costs(std::initializer_list<const char*> kernels) const {
  return std::all_of(kernels.begin(), kernels.end(),
                     [&](const char* kernel) { return gpu_.costs.contains(kernel); });
}

double CostModel::costed(const char* kernel, const std::vector<std::int64_t>& shape) const {
  const auto cost = gpu_.costs.find(kernel);
  const auto work = kernel_work(kernel, shape);
  KVLANE_CHECK(cost != gpu_.costs.end() && work, "{} has no cost of {}", gpu_.name, kernel);
  usage_.costs.insert(kernel);
  return seconds_of(cost->second, *work);
}

double CostModel::elementwise(double bytes) const {
  return bytes / (gpu_.elementwise_em * gpu_.memory_bandwidth);
}

double CostModel::prefill_attention(const AttentionShape& shape, std::int64_t tokens) const {
  if (tokens <= 0 || shape.heads <= 0) return 0;
  // No table knows windows.
  const bool cut = shape.window > 0 && tokens > shape.window;
  return corrected({KernelClass::prefill_attention,
                    {tokens, 1, 1},
                    {shape.heads, shape.kv_heads, cut ? 0 : shape.width}},
                   prefill_formula(shape, tokens));
}

double CostModel::prefill_formula(const AttentionShape& shape, std::int64_t tokens) const {
  const double heads = real(shape.heads);
  const double width = real(shape.width);
  const double s = real((tokens + kPrefillTile - 1) / kPrefillTile * kPrefillTile);
  const double squares = 2 * keys_visited(s, 0, real(shape.window)) + s * gpu_.prefill_s0;
  // Tiles of 128 queries over the SMs: a kernel that does not fill the GPU is slower.
  const double waves = heads * s / 128 / real(gpu_.sm_count);
  const double flops = 2 * heads * width * squares;
  const double compute =
      flops / (gpu_.prefill_ec * gpu_.peak_flops) * (1 + gpu_.prefill_w0 / waves);
  const double bytes = 4 * real(tokens) * width * real(shape.heads + shape.kv_heads);
  const double memory = bytes / (gpu_.prefill_em * gpu_.memory_bandwidth);
  return gpu_.prefill_t0 + smooth_max(compute, memory, gpu_.prefill_p);
}

double CostModel::prefix_attention(const AttentionShape& shape, std::int64_t chunk,
                                   std::int64_t cached) const {
  if (chunk <= 0 || shape.heads <= 0) return 0;
  const bool cut = shape.window > 0 && cached + chunk > shape.window;
  return corrected({KernelClass::prefix_attention,
                    {chunk, cached, 1},
                    {shape.heads, shape.kv_heads, cut ? 0 : shape.width}},
                   prefix_formula(shape, chunk, cached));
}

double CostModel::prefix_formula(const AttentionShape& shape, std::int64_t chunk,
                                 std::int64_t cached) const {
  const double c = real(chunk);
  const double kv = real(cached);
  const double window = real(shape.window);
  const double keys = keys_visited(c, kv, window) + c * 64;  // half a 128-key tile a query
  const double compute =
      4 * real(shape.heads) * real(shape.width) * keys / (gpu_.prefix_ec * gpu_.peak_flops);
  // A tile of queries walks its keys one after the other, however short the chunk is.
  double walk = kv + c / 2 + 64;
  double read = kv + c;
  if (window > 0) {
    walk = std::min(walk, window + 64);
    read = std::min(read, window + c);
  }
  const double memory =
      read * real(shape.kv_heads * shape.width) * 4 / (gpu_.decode_em * gpu_.memory_bandwidth);
  // No less work than the chunk without a prefix, whose launch may be that of another library.
  const double chunk_alone = prefill_formula(shape, chunk) - gpu_.prefill_t0;
  const double walk_and_compute = smooth_max(compute, gpu_.prefix_kappa * walk, gpu_.prefix_p);
  return gpu_.prefix_t0 + std::max({walk_and_compute, memory, chunk_alone});
}

// What decode attention takes however few bytes it reads: its blocks, and a walk along the keys
// where the kernel does not split them.
double CostModel::decode_floor(const DecodeShape& shape) const {
  const double blocks = gpu_.decode_block * shape.sequences * shape.kv_heads;
  return shape.group > 1 ? blocks : std::max(blocks, gpu_.decode_walk * shape.kv_tokens);
}

// Scores and values of every query head, 4 FLOPs an element of a key and its value.
double CostModel::decode_compute(const DecodeShape& shape) const {
  if (gpu_.decode_ec <= 0) return 0;
  const double flops = shape.group * shape.kv_bytes * (shape.fp8 ? 2 : 1);
  return flops / (gpu_.decode_ec * gpu_.peak_flops);
}

double CostModel::decode_attention(const DecodeShape& shape) const {
  const std::int64_t bits = shape.width * (shape.fp8 ? 8 : 16);
  return corrected({KernelClass::decode_attention,
                    {std::llround(shape.sequences), std::llround(shape.kv_tokens), 1},
                    {std::llround(shape.group), std::llround(shape.kv_heads), bits}},
                   decode_formula(shape));
}

double CostModel::decode_formula(const DecodeShape& shape) const {
  const bool fp8 = shape.fp8 && gpu_.decode_fp8_em > 0;
  const double em = fp8 ? gpu_.decode_fp8_em : gpu_.decode_em;
  const double memory = shape.kv_bytes / (em * gpu_.memory_bandwidth);
  const double hidden = smooth_max(decode_compute(shape), decode_floor(shape), gpu_.decode_p);
  return (fp8 ? gpu_.decode_fp8_t0 : gpu_.decode_t0) + smooth_max(memory, hidden, gpu_.decode_p);
}

double CostModel::mixed_attention(const AttentionShape& shape, std::int64_t chunk,
                                  std::int64_t cached, const DecodeShape& decodes) const {
  KVLANE_CHECK(gpu_.mixed_em > 0, "{} has no constants for mixed batches", gpu_.name);
  const double c = real(chunk);
  const double keys = keys_visited(c, real(cached), real(shape.window)) + c * 64;
  const double compute =
      4 * real(shape.heads) * real(shape.width) * keys / (gpu_.prefix_ec * gpu_.peak_flops);
  const double memory = decodes.kv_bytes / (gpu_.mixed_em * gpu_.memory_bandwidth);
  const double longest = std::max(real(cached) + c / 2 + 64, decodes.kv_tokens);
  return gpu_.prefix_t0 + std::max(compute + memory, gpu_.prefix_kappa * longest);
}

double CostModel::all_reduce(double bytes) const {
  if (tp_ == 1) return 0;
  const auto& [alpha, rate] = gpu_.all_reduce.at(tp_);
  return corrected({KernelClass::collective, {std::llround(bytes), 1, 1}, {tp_, 0, 0}},
                   alpha + bytes / rate);
}

}  // namespace kvlane
