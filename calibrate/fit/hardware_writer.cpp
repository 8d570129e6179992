#include "calibrate/fit/hardware_writer.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "calibrate/fit/short_value.h"
#include "calibrate/fit/yaml_text.h"
#include "sim/base/check.h"
#include "sim/scenario/quantity.h"

namespace kvlane::calibrate {
namespace {

class Writer {
 public:
  explicit Writer(const GpuSpec& gpu) : gpu_(gpu) {}

  std::string text() {
    out_ = fmt::format(
        "# {}. Sources: `from` names data set and commit; a fit gives its held-out error.\n"
        "# Constants whose source is `table` or `measured` with a fit in `from` are made by\n"
        "# `kvlane calibrate fit` (commands: VALIDATION.md). max_p(a, b) = (a^p + b^p)^(1/p).\n",
        gpu_.name);
    out_ += fmt::format("name: {}\n", yaml_quoted(gpu_.name));
    datasheet();
    matrices();
    attention();
    rest();
    all_reduce();
    costs();
    fits();
    return std::move(out_);
  }

 private:
  void section(const char* comment) { out_ += fmt::format("\n# {}\n", comment); }

  std::string noted(const std::string& key, const std::string& value) const {
    const auto source = gpu_.source.find(key);
    const auto from = gpu_.source_text.find(key);
    KVLANE_CHECK(
        source != gpu_.source.end() && from != gpu_.source_text.end() && !from->second.empty(),
        "{} of {} has no source", key, gpu_.name);
    return yaml_noted(value, source->second, from->second);
  }
  void line(const char* key, const std::string& value) {
    out_ += fmt::format("{}: {}\n", key, noted(key, value));
  }
  void time(const char* key, double v) { line(key, value_text(v, ValueUnit::time)); }
  void share(const char* key, double v) { line(key, value_text(v, ValueUnit::share)); }
  void number(const char* key, double v) { line(key, value_text(v, ValueUnit::number)); }

  void datasheet() {
    section("Datasheet.");
    line("peak_flops", value_text(gpu_.peak_flops, ValueUnit::flops));
    line("peak_int8_ops", value_text(gpu_.peak_int8_ops, ValueUnit::ops));
    if (gpu_.peak_fp8_flops > 0) {
      line("peak_fp8_flops", value_text(gpu_.peak_fp8_flops, ValueUnit::flops));
    }
    line("memory_bandwidth", value_text(gpu_.memory_bandwidth, ValueUnit::byte_rate));
    line("memory", format_size(gpu_.memory.count()));
    line("sm_count", fmt::format("{}", gpu_.sm_count));
    line("l2", format_size(gpu_.l2.count()));
    section("PCIe and the host behind it.");
    line("pcie_h2d", value_text(gpu_.pcie_h2d));
    line("pcie_d2h", value_text(gpu_.pcie_d2h));
    line("pcie_copy", format_time(gpu_.pcie_copy.count()));
    line("host_memory", value_text(gpu_.host_memory));
  }

  void matrices() {
    section("GEMM: t = t0 + max_p(F/(ec P), B/(em BW)); F the FLOPs, B the bytes that DRAM moves.");
    time("gemm_t0", gpu_.gemm_t0);
    share("gemm_ec", gpu_.gemm_ec);
    share("gemm_em", gpu_.gemm_em);
    number("gemm_p", gpu_.gemm_p);
    if (gpu_.peak_fp8_flops <= 0) return;
    section("The same with fp8 weights and activations, of the fp8 peak.");
    time("gemm_fp8_t0", gpu_.gemm_fp8_t0);
    share("gemm_fp8_ec", gpu_.gemm_fp8_ec);
    share("gemm_fp8_em", gpu_.gemm_fp8_em);
    number("gemm_fp8_p", gpu_.gemm_fp8_p);
  }

  void attention() {
    section(
        "Causal prefill attention: t = t0 + max_p(2 h d s (s + s0) / (ec P) (1 + w0/w), B/(em "
        "BW)); "
        "s the tokens in tiles of 64,\n# w = h s / 128 / multiprocessors.");
    time("prefill_t0", gpu_.prefill_t0);
    share("prefill_ec", gpu_.prefill_ec);
    share("prefill_em", gpu_.prefill_em);
    number("prefill_p", gpu_.prefill_p);
    number("prefill_s0", gpu_.prefill_s0);
    number("prefill_w0", gpu_.prefill_w0);
    section(
        "Prefill of c tokens after kv cached ones: t = t0 + max_p(F/(ec P), kappa (kv + c/2 + "
        "64)).");
    time("prefix_t0", gpu_.prefix_t0);
    share("prefix_ec", gpu_.prefix_ec);
    time("prefix_kappa", gpu_.prefix_kappa);
    number("prefix_p", gpu_.prefix_p);
    section(
        "Decode attention of b sequences: t = t0 + max_p(B/(em BW), block b h_kv, walk kv), the "
        "last "
        "with one query head a kv head only;\n# 2-bit KV: at least elements/rate.");
    time("decode_t0", gpu_.decode_t0);
    share("decode_em", gpu_.decode_em);
    time("decode_block", gpu_.decode_block);
    time("decode_walk", gpu_.decode_walk);
    number("decode_p", gpu_.decode_p);
    if (gpu_.decode_ec > 0) share("decode_ec", gpu_.decode_ec);
    if (gpu_.decode_fp8_em > 0) {
      time("decode_fp8_t0", gpu_.decode_fp8_t0);
      share("decode_fp8_em", gpu_.decode_fp8_em);
    }
    line("hack_unpack_rate", value_text(gpu_.hack_unpack_rate, ValueUnit::ops));
    if (gpu_.mixed_em <= 0) return;
    section(
        "A chunk and decodes in one launch: t = prefix_t0 + max(F/(prefix_ec P) + B/(em BW), "
        "prefix_kappa of the longest).");
    share("mixed_em", gpu_.mixed_em);
  }

  void rest() {
    section("Everything beside matrices and attention.");
    time("small_kernel_t0", gpu_.small_kernel_t0);
    share("elementwise_em", gpu_.elementwise_em);
    share("other_share", gpu_.other_share);
    section("Host.");
    time("host_step", gpu_.host_step);
    line("host_gather_bandwidth", value_text(gpu_.host_gather_bandwidth, ValueUnit::byte_rate));
    if (gpu_.concurrent_streams) return;
    section("One set of threads: selection takes its turn.");
    out_ += "concurrent_streams: false\n";
  }

  void all_reduce() {
    if (gpu_.all_reduce.empty()) return;
    section("Collectives of tensor parallelism: t = latency + bytes/rate.");
    out_ += "all_reduce:\n";
    for (const auto& [ranks, cost] : gpu_.all_reduce) {
      const std::string key = fmt::format("all_reduce.{}.", ranks);
      out_ += fmt::format("  - ranks: {}\n", ranks);
      out_ += fmt::format("    latency: {}\n",
                          noted(key + "latency", value_text(cost.first, ValueUnit::time)));
      out_ += fmt::format("    rate: {}\n",
                          noted(key + "rate", value_text(cost.second, ValueUnit::byte_rate)));
    }
  }

  void costs() {
    if (gpu_.costs.empty()) return;
    section(
        "Measured kernels of F operations, B bytes, N pieces: t = launch + max_p(F/rate, "
        "B/bandwidth, N item).");
    out_ += "kernel_costs:\n";
    for (const auto& [kernel, cost] : gpu_.costs) {
      const auto one = [&, name = kernel](const char* key, double v, ValueUnit unit) {
        out_ +=
            fmt::format("    {}: {}\n", key,
                        noted(fmt::format("kernel_costs.{}.{}", name, key), value_text(v, unit)));
      };
      out_ += fmt::format("  - kernel: {}\n", kernel);
      one("launch", cost.t0, ValueUnit::time);
      if (cost.flops > 0) one("rate", cost.flops, ValueUnit::ops);
      if (cost.bandwidth > 0) one("bandwidth", cost.bandwidth, ValueUnit::byte_rate);
      if (cost.item > 0) one("item", cost.item, ValueUnit::time);
      if (cost.wake > 0) {
        one("wake", cost.wake, ValueUnit::time);
        out_ += fmt::format("    alone: {}\n",
                            noted(fmt::format("kernel_costs.{}.alone", kernel),
                                  format_size(static_cast<std::int64_t>(cost.alone))));
      }
      one("exponent", cost.p, ValueUnit::number);
    }
  }

  void fits() {
    if (gpu_.fits.empty()) return;
    section("What the fits leave open: mean error on shapes held out, and the sizes covered.");
    out_ += "kernels:\n";
    for (const auto& [kernel, fit] : gpu_.fits) {
      const std::string key = fmt::format("kernels.{}.error", to_string(kernel));
      out_ += fmt::format("  - kernel: {}\n", to_string(kernel));
      out_ += fmt::format("    error: {}\n", noted(key, value_text(fit.error, ValueUnit::share)));
      if (fit.domain.empty()) continue;
      out_ += "    domain:\n";
      for (const DomainRange& range : fit.domain) {
        out_ += fmt::format("      - {{dimension: {}, low: {}, high: {}}}\n", range.dimension,
                            value_text(range.low, ValueUnit::number),
                            value_text(range.high, ValueUnit::number));
      }
    }
  }

  const GpuSpec& gpu_;
  std::string out_;
};

}  // namespace

std::string hardware_text(const GpuSpec& gpu) { return Writer(gpu).text(); }

}  // namespace kvlane::calibrate
