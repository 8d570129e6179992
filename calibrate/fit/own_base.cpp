#include "calibrate/fit/own_base.h"

#include <fmt/format.h>

#include <algorithm>

#include "calibrate/fit/ceilings.h"
#include "calibrate/fit/short_value.h"
#include "calibrate/measure/memory_grid.h"
#include "sim/gpu/kernel_work.h"

namespace kvlane::calibrate {
namespace {

Bandwidth bandwidth(double bytes_a_second) {
  return Bandwidth::gbyte_per_sec(rounded(bytes_a_second, ValueUnit::byte_rate) / 1e9);
}

class Base {
 public:
  explicit Base(const Sample& first) { gpu_.name = first.machine; }

  void note(const char* key, Source source, const std::string& from) {
    gpu_.source[key] = source;
    gpu_.source_text[key] = from;
  }
  void guess(const char* key, double GpuSpec::*at, double value) {
    gpu_.*at = value;
    note(key, Source::assumed, "a first guess: no sample of this machine tells");
  }
  GpuSpec& gpu() { return gpu_; }

 private:
  GpuSpec gpu_;
};

void add_guesses(Base& base) {
  using G = GpuSpec;
  base.guess("gemm_t0", &G::gemm_t0, 1e-6);
  base.guess("gemm_ec", &G::gemm_ec, 0.9);
  base.guess("gemm_em", &G::gemm_em, 0.5);
  base.guess("gemm_p", &G::gemm_p, 2);
  base.guess("prefill_t0", &G::prefill_t0, 1e-6);
  base.guess("prefill_ec", &G::prefill_ec, 0.3);
  base.guess("prefill_em", &G::prefill_em, 0.9);
  base.guess("prefill_p", &G::prefill_p, 2);
  base.guess("prefill_s0", &G::prefill_s0, 0);
  base.guess("prefill_w0", &G::prefill_w0, 0);
  base.guess("prefix_t0", &G::prefix_t0, 1e-6);
  base.guess("prefix_ec", &G::prefix_ec, 0.3);
  base.guess("prefix_kappa", &G::prefix_kappa, 0);
  base.guess("prefix_p", &G::prefix_p, 2);
  base.guess("decode_t0", &G::decode_t0, 1e-6);
  base.guess("decode_em", &G::decode_em, 0.9);
  base.guess("decode_block", &G::decode_block, 0);
  base.guess("decode_walk", &G::decode_walk, 0);
  base.guess("decode_p", &G::decode_p, 2);
  base.guess("small_kernel_t0", &G::small_kernel_t0, 1e-6);
  base.guess("elementwise_em", &G::elementwise_em, 0.9);
  base.guess("other_share", &G::other_share, 0.06);
  base.guess("host_step", &G::host_step, 1e-4);
  base.guess("hack_unpack_rate", &G::hack_unpack_rate,
             rounded(std::max(base.gpu().peak_flops / 8, 1e9), ValueUnit::ops));
}

// Bytes/s of one way to copy, at its best; 0: no sample of it.
double best_copy(const std::vector<Sample>& samples, const std::string& way) {
  double best = 0;
  for (const Sample& sample : samples) {
    if (sample.kernel != "copy" || sample.set_aside == kExtrapolated ||
        sample.variant.rfind(way + ": ", 0) != 0)
      continue;
    best = std::max(best, static_cast<double>(dimension(sample, "bytes")) / sample.seconds);
  }
  return best;
}

void add_cpu(Base& base, const Conditions& how, const Ceilings& best, const std::string& what) {
  GpuSpec& gpu = base.gpu();
  base.note("peak_flops", Source::measured, what + ": the best fp32 product");
  base.note("peak_int8_ops", Source::assumed, "no integer matrices");
  gpu.sm_count = how.threads;
  base.note("sm_count", Source::measured, "threads of the measurement");
  gpu.concurrent_streams = false;
  base.note("l2", Source::measured, "last-level cache, as the system tells");
  // Device and host are one: what a GPU would copy over PCIe is a copy in memory.
  gpu.pcie_h2d = gpu.pcie_d2h = bandwidth(best.copy / 2);
  base.note("pcie_h2d", Source::measured, what + ": the best copy in memory");
  base.note("pcie_d2h", Source::measured, what + ": the best copy in memory");
  base.note("pcie_copy", Source::assumed, "a copy in memory has no launch");
  gpu.host_memory = bandwidth(best.copy);
  base.note("host_memory", Source::measured, what + ": the best copy, read and written");
  base.guess("host_gather_bandwidth", &GpuSpec::host_gather_bandwidth,
             rounded(gpu.memory_bandwidth / 4, ValueUnit::byte_rate));
}

// False: no copies between host and device.
bool add_gpu(Base& base, const Conditions& how, const std::vector<Sample>& samples,
             const std::string& what) {
  const double to_device = best_copy(samples, kToDevice), to_host = best_copy(samples, kToHost);
  if (to_device <= 0 || to_host <= 0) return false;
  GpuSpec& gpu = base.gpu();
  base.note("peak_flops", Source::measured, what + ": the best bf16 product");
  gpu.peak_int8_ops = 2 * gpu.peak_flops;
  base.note("peak_int8_ops", Source::assumed,
            "twice the bf16 product, as NVIDIA's data sheets have it since Turing");
  gpu.sm_count = how.multiprocessors;
  base.note("sm_count", Source::measured, "as CUDA tells");
  base.note("l2", Source::measured, "as CUDA tells");
  gpu.pcie_h2d = bandwidth(to_device);
  base.note("pcie_h2d", Source::measured, what + ": the best copy from pinned memory");
  gpu.pcie_d2h = bandwidth(to_host);
  base.note("pcie_d2h", Source::measured, what + ": the best copy to pinned memory");
  gpu.pcie_copy = seconds_to_duration(1e-5);
  base.note("pcie_copy", Source::assumed, "a first guess: no sample of this machine tells");
  // Nothing here measures the host alone. Both ways at once go through its memory.
  const double both = std::max({2 * best_copy(samples, kBothWays), to_device, to_host});
  gpu.host_memory = bandwidth(both);
  base.note("host_memory", Source::extrapolated,
            "no less than the copies move, at the best both ways at once");
  base.guess("host_gather_bandwidth", &GpuSpec::host_gather_bandwidth,
             rounded(both / 4, ValueUnit::byte_rate));
  return true;
}

// Rows that a host collects which has a selection and no luck: single ones, in bytes/s.
std::vector<double> gathers_of_rows(const GpuSpec& gpu, const std::vector<Sample>& samples) {
  std::vector<double> rates;
  for (const Sample& sample : samples) {
    if (sample.kernel != "kv_gather" || !is_own(sample) || sample.set_aside == kExtrapolated ||
        dimension(sample, "run_tokens") != 1)
      continue;
    const double bytes = kernel_work(sample)->bytes / 2;
    if (is_own_cpu(sample)) {
      if (sample.set_aside.empty()) rates.push_back(bytes / sample.seconds);
    } else if (sample.variant.rfind(kGatherPacked, 0) == 0) {
      // The host packs them, then they are copied.
      const double packing =
          sample.seconds - to_seconds(gpu.pcie_copy) - bytes / gpu.pcie_h2d.bytes_per_sec();
      if (packing > 0) rates.push_back(bytes / packing);
    }
  }
  return rates;
}

}  // namespace

std::optional<GpuSpec> base_of_own(const std::vector<Sample>& samples) {
  if (samples.empty() || !is_own(samples.front())) return std::nullopt;
  const Sample& first = samples.front();
  const Conditions& how = first.conditions;
  const Ceilings best = ceilings_of(samples);
  if (best.read <= 0 || best.copy <= 0 || best.flops <= 0 || how.threads <= 0 ||
      how.memory_bytes <= 0)
    return std::nullopt;
  Base base(first);
  GpuSpec& gpu = base.gpu();
  const std::string what = first.source;
  gpu.peak_flops = rounded(best.flops, ValueUnit::flops);
  gpu.memory_bandwidth = rounded(best.read, ValueUnit::byte_rate);
  base.note("memory_bandwidth", Source::measured, what + ": the best streaming read");
  gpu.memory = Bytes(how.memory_bytes);
  base.note("memory", Source::measured, "as the system tells");
  gpu.l2 = Bytes(how.cache_bytes);
  if (is_own_cpu(first)) {
    add_cpu(base, how, best, what);
  } else if (!add_gpu(base, how, samples, what)) {
    return std::nullopt;
  }
  add_guesses(base);
  return gpu;
}

void derive_from_fits(GpuSpec& gpu, const std::vector<Sample>& samples) {
  const auto note = [&](const char* key, const std::string& from) {
    gpu.source[key] = Source::measured;
    gpu.source_text[key] = from;
  };
  if (const auto add = gpu.costs.find("add"); add != gpu.costs.end() && add->second.bandwidth > 0) {
    gpu.small_kernel_t0 = add->second.t0;
    gpu.elementwise_em = rounded(
        std::clamp(add->second.bandwidth / gpu.memory_bandwidth, 0.001, 1.2), ValueUnit::share);
    note("small_kernel_t0", "the fit of add");
    note("elementwise_em", "the fit of add, of the streaming read");
  }
  if (const auto copy = gpu.costs.find("copy"); copy != gpu.costs.end()) {
    gpu.pcie_copy = seconds_to_duration(copy->second.t0);
    note("pcie_copy", "the fit of copy");
  }
  std::vector<double> rates = gathers_of_rows(gpu, samples);
  if (rates.empty()) return;
  const auto middle = rates.begin() + static_cast<std::ptrdiff_t>(rates.size() / 2);
  std::nth_element(rates.begin(), middle, rates.end());
  gpu.host_gather_bandwidth = rounded(*middle, ValueUnit::byte_rate);
  note("host_gather_bandwidth",
       fmt::format("the middle of {} gathers of single rows", rates.size()));
}

}  // namespace kvlane::calibrate
