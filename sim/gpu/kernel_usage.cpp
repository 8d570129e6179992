#include "sim/gpu/kernel_usage.h"

#include <algorithm>
#include <limits>

#include "sim/base/check.h"

namespace kvlane {
namespace {

constexpr double kFarthest = std::numeric_limits<double>::max();

bool starts_with(const std::string& key, const std::string& prefix) {
  return key.rfind(prefix, 0) == 0;
}

// How many times a size is beyond the range; at most 1: inside.
double distance(double value, const DomainRange& range) {
  if (value > range.high) return range.high > 0 ? value / range.high : kFarthest;
  if (value < range.low) return value > 0 ? range.low / value : kFarthest;
  return 1;
}

}  // namespace

void KernelUsage::sizes(KernelClass kernel, std::initializer_list<double> values) {
  KVLANE_CHECK(values.size() == domain_dimensions(kernel).size(), "{} sizes of {}", values.size(),
               to_string(kernel));
  std::size_t d = 0;
  for (const double value : values) {
    Extent& extent = extents_[index(kernel)][d++];
    extent.low = extent.known ? std::min(extent.low, value) : value;
    extent.high = extent.known ? std::max(extent.high, value) : value;
    extent.known = true;
  }
}

void KernelUsage::look_up(const KernelShape& shape, bool inside) {
  if (!looked_up_.emplace(Shape(shape.kernel, shape.sizes, shape.exact), inside).second) return;
  TableUse& use = tables_[index(shape.kernel)];
  if (!inside && use.outside == 0) use.first_outside = shape.sizes;
  ++(inside ? use.inside : use.outside);
}

std::vector<KernelUsage::Outside> KernelUsage::outside(const GpuSpec& gpu) const {
  std::vector<Outside> found;
  for (const auto& [kernel, fit] : gpu.fits) {
    const std::vector<std::string>& dimensions = domain_dimensions(kernel);
    for (std::size_t d = 0; d < dimensions.size(); ++d) {
      const Extent& extent = extents_[index(kernel)][d];
      if (!extent.known) continue;
      for (const DomainRange& range : fit.domain) {
        if (range.dimension != dimensions[d]) continue;
        const double below = distance(extent.low, range);
        const double above = distance(extent.high, range);
        if (below <= 1 && above <= 1) continue;
        found.push_back({kernel, range, above > below ? extent.high : extent.low});
      }
    }
  }
  return found;
}

void KernelUsage::merge(const KernelUsage& other) {
  for (std::size_t k = 0; k < kKernelClasses; ++k) {
    used_[k] = used_[k] || other.used_[k];
    for (std::size_t d = 0; d < extents_[k].size(); ++d) {
      const Extent& from = other.extents_[k][d];
      Extent& to = extents_[k][d];
      if (!from.known) continue;
      to.low = to.known ? std::min(to.low, from.low) : from.low;
      to.high = to.known ? std::max(to.high, from.high) : from.high;
      to.known = true;
    }
    if (tables_[k].outside == 0) tables_[k].first_outside = other.tables_[k].first_outside;
  }
  for (const auto& [shape, inside] : other.looked_up_) {
    if (!looked_up_.emplace(shape, inside).second) continue;
    TableUse& use = tables_[index(std::get<0>(shape))];
    ++(inside ? use.inside : use.outside);
  }
}

bool KernelUsage::rests_on(const std::string& key, bool fp8_gemm, int tp) const {
  using enum KernelClass;
  // What a fit leaves open is no part of a time.
  if (starts_with(key, "kernels.")) return false;
  // Selection multiplies matrices and runs small kernels of its own.
  const bool matrices = used(gemm) || used(selection);
  const bool small_kernels = used(small) || used(selection) || used(quantise);
  if (key == "peak_fp8_flops" || starts_with(key, "gemm_fp8_")) return matrices && fp8_gemm;
  if (key == "gemm_t0") return matrices && (!fp8_gemm || experts);
  if (starts_with(key, "gemm_")) return matrices && !fp8_gemm;
  if (starts_with(key, "prefill_")) return used(prefill_attention);
  if (starts_with(key, "prefix_")) return used(prefix_attention);
  if (starts_with(key, "decode_fp8_")) return decode_8_bit;
  if (key == "decode_t0" || key == "decode_em") return decode_16_bit;
  if (starts_with(key, "kernel_costs.")) {
    const std::size_t from = std::string("kernel_costs.").size();
    return costs.contains(key.substr(from, key.find('.', from) - from));
  }
  if (key == "decode_walk") return used(decode_attention) && decode_unsplit;
  if (starts_with(key, "decode_")) return used(decode_attention);
  if (key == "mixed_em") return false;  // no run puts a chunk and decodes into one launch
  if (key == "hack_unpack_rate") return unpacks;
  if (key == "small_kernel_t0" || key == "elementwise_em") return small_kernels;
  if (key == "other_share") return used(small);
  if (starts_with(key, "all_reduce.")) {
    return used(collective) && starts_with(key, "all_reduce." + std::to_string(tp) + ".");
  }
  if (starts_with(key, "pcie_") || key == "host_memory") return used(copy);
  if (key == "host_step") return used(host);
  if (key == "host_gather_bandwidth") return gathers;
  // No kernel works on int8 tensor cores yet.
  if (key == "peak_int8_ops") return false;
  return true;  // peaks and sizes of the datasheet
}

}  // namespace kvlane
