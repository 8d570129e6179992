// The kernels: formulas of sim/gpu/gpu_spec.h, one function each.

#include "sim/gpu/cost_model.h"

#include <algorithm>
#include <utility>

#include "sim/base/check.h"
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

}  // namespace

CostModel::CostModel(GpuSpec gpu, ModelSpec model, int tp, bool windows_as_full,
                     const KernelTable* table)
    : gpu_(std::move(gpu)),
      model_(std::move(model)),
      tp_(tp),
      windows_as_full_(windows_as_full),
      table_(table) {
  KVLANE_CHECK(tp >= 1, "tensor-parallel degree {}", tp);
  KVLANE_CHECK(tp == 1 || gpu_.all_reduce.contains(tp), "{} has no all-reduce over {} ranks",
               gpu_.name, tp);
  KVLANE_CHECK(gpu_.peak_flops > 0 && gpu_.memory_bandwidth > 0 && gpu_.gemm_ec > 0 &&
                   gpu_.gemm_em > 0 && gpu_.gemm_p > 0 && gpu_.prefill_ec > 0 &&
                   gpu_.prefix_ec > 0 && gpu_.decode_em > 0 && gpu_.elementwise_em > 0 &&
                   gpu_.sm_count > 0 && gpu_.hack_unpack_rate > 0,
               "the parameters of {} are not complete", gpu_.name);
}

double CostModel::from_table(KernelClass kernel, std::int64_t m, std::int64_t n,
                             std::int64_t k) const {
  return table_ == nullptr ? -1 : table_->seconds(kernel, m, n, k);
}

double CostModel::roofline(double flops, double bytes) const {
  const double compute = flops / (gpu_.gemm_ec * gpu_.peak_flops);
  const double memory = bytes / (gpu_.gemm_em * gpu_.memory_bandwidth);
  const double high = std::max(compute, memory);
  if (high <= 0) return 0;
  const double ratio = std::min(compute, memory) / high;
  return high * portable::pow(1 + portable::pow(ratio, gpu_.gemm_p), 1 / gpu_.gemm_p);
}

double CostModel::gemm(std::int64_t m, std::int64_t n, std::int64_t k) const {
  if (m <= 0 || n <= 0 || k <= 0) return 0;
  if (const double t = from_table(KernelClass::gemm, m, n, k); t >= 0) return t;
  const double flops = 2 * real(m) * real(n) * real(k);
  const double bytes = real(n) * real(k) * model_.weight_bytes + 2 * real(m) * real(n + k);
  return gpu_.gemm_t0 + roofline(flops, bytes);
}

double CostModel::elementwise(double bytes) const {
  return bytes / (gpu_.elementwise_em * gpu_.memory_bandwidth);
}

double CostModel::prefill_attention(const AttentionShape& shape, std::int64_t tokens) const {
  if (tokens <= 0 || shape.heads <= 0) return 0;
  if (const double t = from_table(KernelClass::prefill_attention, tokens, shape.heads, shape.width);
      t >= 0) {
    return t;
  }
  const double heads = real(shape.heads);
  const double s = real(tokens);
  const double squares = 2 * keys_visited(s, 0, real(shape.window)) + s * gpu_.prefill_s0;
  // Waves of 128-query tiles over the SMs: a kernel that does not fill the GPU is slower.
  const double waves = heads * s / 128 / real(gpu_.sm_count);
  const double occupancy = waves / (waves + gpu_.prefill_w0);
  const double flops = 2 * heads * real(shape.width) * squares;
  const double bytes = 2 * s * real(shape.width) * 2 * real(shape.heads + shape.kv_heads);
  return gpu_.prefill_t0 + flops / (gpu_.prefill_ec * gpu_.peak_flops * occupancy) +
         elementwise(bytes);
}

double CostModel::prefix_attention(const AttentionShape& shape, std::int64_t chunk,
                                   std::int64_t cached) const {
  if (chunk <= 0 || shape.heads <= 0) return 0;
  if (const double t = from_table(KernelClass::prefix_attention, chunk, cached, shape.heads);
      t >= 0) {
    return t;
  }
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
  const double with_prefix = gpu_.prefix_t0 + std::max({compute, gpu_.prefix_kappa * walk, memory});
  return std::max(with_prefix, prefill_attention(shape, chunk));
}

double CostModel::decode_attention(double kv_bytes) const {
  return gpu_.decode_t0 + kv_bytes / (gpu_.decode_em * gpu_.memory_bandwidth);
}

double CostModel::all_reduce(double bytes) const {
  if (tp_ == 1) return 0;
  if (const double t =
          from_table(KernelClass::collective, static_cast<std::int64_t>(bytes), tp_, 0);
      t >= 0) {
    return t;
  }
  const auto& [alpha, rate] = gpu_.all_reduce.at(tp_);
  return alpha + bytes / rate;
}

}  // namespace kvlane
