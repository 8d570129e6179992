// `kvlane show hardware` of a GPU.

#include <nlohmann/json.hpp>

#include "sim/scenario/gpu_file.h"

namespace kvlane {
namespace {

struct Row {
  std::string key;
  double value;      // base units
  std::string unit;  // of `value`
  std::string text;  // value with a readable unit
};

std::string scaled(double value, double factor, const char* unit) {
  return fmt::format("{:.6g} {}", value / factor, unit);
}

std::vector<Row> rows_of(const GpuSpec& g) {
  std::vector<Row> rows;
  const auto operations = [&](const std::string& key, double v) {
    rows.push_back({key, v, "OPS", v < 1e11 ? scaled(v, 1e9, "GOPS") : scaled(v, 1e12, "TOPS")});
  };
  const auto bytes = [&](const char* key, Bytes v) {
    rows.push_back({key, static_cast<double>(v.count()), "B", format_size(v.count())});
  };
  const auto rate = [&](const std::string& key, double v) {
    rows.push_back({key, v, "B/s", scaled(v, 1e9, "GB/s")});
  };
  const auto time = [&](const std::string& key, double v) {
    rows.push_back(
        {key, v, "s", v < 1e-6 && v > 0 ? scaled(v, 1e-9, "ns") : scaled(v, 1e-6, "us")});
  };
  const auto share = [&](const std::string& key, double v) {
    rows.push_back({key, v, "1", scaled(v, 0.01, "%")});
  };
  const auto number = [&](const std::string& key, double v) {
    rows.push_back({key, v, "1", fmt::format("{:.6g}", v)});
  };
  operations("peak_flops", g.peak_flops);
  operations("peak_int8_ops", g.peak_int8_ops);
  rate("memory_bandwidth", g.memory_bandwidth);
  bytes("memory", g.memory);
  number("sm_count", static_cast<double>(g.sm_count));
  bytes("l2", g.l2);
  rate("pcie_h2d", g.pcie_h2d.bytes_per_sec());
  rate("pcie_d2h", g.pcie_d2h.bytes_per_sec());
  time("pcie_copy", to_seconds(g.pcie_copy));
  rate("host_memory", g.host_memory.bytes_per_sec());
  time("gemm_t0", g.gemm_t0);
  share("gemm_ec", g.gemm_ec);
  share("gemm_em", g.gemm_em);
  number("gemm_p", g.gemm_p);
  if (g.peak_fp8_flops > 0) {
    operations("peak_fp8_flops", g.peak_fp8_flops);
    time("gemm_fp8_t0", g.gemm_fp8_t0);
    share("gemm_fp8_ec", g.gemm_fp8_ec);
    share("gemm_fp8_em", g.gemm_fp8_em);
    number("gemm_fp8_p", g.gemm_fp8_p);
  }
  time("prefill_t0", g.prefill_t0);
  share("prefill_ec", g.prefill_ec);
  share("prefill_em", g.prefill_em);
  number("prefill_p", g.prefill_p);
  number("prefill_s0", g.prefill_s0);
  number("prefill_w0", g.prefill_w0);
  time("prefix_t0", g.prefix_t0);
  share("prefix_ec", g.prefix_ec);
  time("prefix_kappa", g.prefix_kappa);
  number("prefix_p", g.prefix_p);
  time("decode_t0", g.decode_t0);
  share("decode_em", g.decode_em);
  time("decode_block", g.decode_block);
  time("decode_walk", g.decode_walk);
  number("decode_p", g.decode_p);
  if (g.decode_ec > 0) share("decode_ec", g.decode_ec);
  if (g.decode_fp8_em > 0) {
    time("decode_fp8_t0", g.decode_fp8_t0);
    share("decode_fp8_em", g.decode_fp8_em);
  }
  if (g.mixed_em > 0) share("mixed_em", g.mixed_em);
  operations("hack_unpack_rate", g.hack_unpack_rate);
  time("small_kernel_t0", g.small_kernel_t0);
  share("elementwise_em", g.elementwise_em);
  share("other_share", g.other_share);
  time("host_step", g.host_step);
  rate("host_gather_bandwidth", g.host_gather_bandwidth);
  for (const auto& [ranks, cost] : g.all_reduce) {
    time(fmt::format("all_reduce.{}.latency", ranks), cost.first);
    rate(fmt::format("all_reduce.{}.rate", ranks), cost.second);
  }
  for (const auto& [kernel, cost] : g.costs) {
    const std::string key = fmt::format("kernel_costs.{}.", kernel);
    time(key + "launch", cost.t0);
    if (cost.flops > 0) operations(key + "rate", cost.flops);
    if (cost.bandwidth > 0) rate(key + "bandwidth", cost.bandwidth);
    if (cost.item > 0) time(key + "item", cost.item);
    if (cost.wake > 0) {
      time(key + "wake", cost.wake);
      rows.push_back(
          {key + "alone", cost.alone, "B", format_size(static_cast<std::int64_t>(cost.alone))});
    }
    number(key + "exponent", cost.p);
  }
  for (const auto& [kernel, fit] : g.fits) {
    share(fmt::format("kernels.{}.error", to_string(kernel)), fit.error);
    for (const DomainRange& range : fit.domain) {
      const std::string key = fmt::format("kernels.{}.{}", to_string(kernel), range.dimension);
      rows.push_back(
          {key, range.high, "1", fmt::format("{:.6g} ... {:.6g}", range.low, range.high)});
    }
  }
  return rows;
}

std::string source_class(const GpuSpec& gpu, const std::string& key) {
  const auto at = gpu.source.find(key);
  return at == gpu.source.end() ? "" : to_string(at->second);
}

std::string source_text(const GpuSpec& gpu, const std::string& key) {
  const auto at = gpu.source_text.find(key);
  return at == gpu.source_text.end() ? "" : at->second;
}

}  // namespace

std::string show_gpu_text(const GpuSpec& gpu) {
  std::string text =
      fmt::format("{}: weakest source {}\n", gpu.name, to_string(weakest_source(gpu)));
  for (const Row& row : rows_of(gpu)) {
    text += fmt::format("  {:<24} {:>14}  {:<12}  {}\n", row.key, row.text,
                        source_class(gpu, row.key), source_text(gpu, row.key));
  }
  return text;
}

std::string show_gpu_json(const GpuSpec& gpu) {
  using Json = nlohmann::ordered_json;
  Json rows = Json::array();
  for (const Row& row : rows_of(gpu)) {
    rows.push_back({{"key", row.key},
                    {"value", row.value},
                    {"unit", row.unit},
                    {"source", source_class(gpu, row.key)},
                    {"from", source_text(gpu, row.key)}});
  }
  const Json result = {{"schema", "kvlane.show_hardware/1"},
                       {"name", gpu.name},
                       {"weakest_source", to_string(weakest_source(gpu))},
                       {"rows", std::move(rows)}};
  return result.dump(2) + "\n";
}

}  // namespace kvlane
