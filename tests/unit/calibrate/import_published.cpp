// The published tables, where they lie beside the source tree: as many samples as rows, and single
// values against the files read by a few lines of their own. Elsewhere the test is skipped.

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <tuple>

#include "calibrate/import/folder.h"

namespace kvlane {
namespace {

const std::string kFolder = "../shared/data/";

// Cells of a line up to the first quote: numbers and plain words only.
std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> all;
  std::stringstream stream(line);
  for (std::string cell; std::getline(stream, cell, ',');) all.push_back(cell);
  return all;
}

// All lines but the header; blank ones left out.
std::vector<std::string> rows_of(const std::string& file) {
  std::ifstream stream(kFolder + file);
  REQUIRE(stream);
  std::vector<std::string> rows;
  std::string line;
  std::getline(stream, line);
  while (std::getline(stream, line)) {
    if (!line.empty()) rows.push_back(line);
  }
  return rows;
}

const calibrate::FolderImport& everything() {
  static const calibrate::FolderImport all = calibrate::import_folder(kFolder, {});
  return all;
}

std::size_t count(const std::string& machine, const std::string& source, const std::string& kernel,
                  const std::string& dtype) {
  std::size_t n = 0;
  for (const Sample& sample : everything().samples) {
    n += sample.machine == machine && sample.source.starts_with(source) &&
         sample.kernel == kernel && sample.dtype == dtype;
  }
  return n;
}

using Key = std::tuple<std::string, std::string, std::string, std::vector<std::int64_t>>;

// Seconds by machine, kernel, data type and shape, of one data set.
std::multimap<Key, double> times_of(const std::string& source) {
  std::multimap<Key, double> times;
  for (const Sample& sample : everything().samples) {
    if (sample.source.starts_with(source)) {
      times.emplace(Key{sample.machine, sample.kernel, sample.dtype, sample.shape}, sample.seconds);
    }
  }
  return times;
}

bool holds(const std::multimap<Key, double>& times, const Key& key, double seconds) {
  const auto [first, last] = times.equal_range(key);
  for (auto at = first; at != last; ++at) {
    if (at->second == doctest::Approx(seconds).epsilon(1e-9)) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("nothing is missing, nothing is empty") {
  CHECK(everything().missing.empty());
  CHECK(everything().samples.size() > 300'000);
}

TEST_CASE("aiconfigurator: rows and single values") {
  const auto times = times_of("aiconfigurator");
  const std::pair<const char*, const char*> gpus[] = {{"a100_sxm", "A100-80-SXM"},
                                                      {"h100_sxm", "H100-SXM"},
                                                      {"h200_sxm", "H200-SXM"},
                                                      {"l40s", "L40S"},
                                                      {"rtx_pro_6000_server", "RTX-PRO-6000"}};
  for (const auto& gpu : gpus) {
    const char* word = gpu.first;
    const char* machine = gpu.second;
    CAPTURE(machine);
    const auto gemm = rows_of(std::string("aiconfigurator/gemm_bf16_") + word + ".csv");
    CHECK(count(machine, "aiconfigurator", "gemm", "bf16") == gemm.size());
    for (std::size_t i = 0; i < gemm.size(); i += 997) {
      const auto c = cells(gemm[i]);
      CAPTURE(gemm[i]);
      CHECK(holds(times, {machine, "gemm", "bf16", {stoll(c[0]), stoll(c[1]), stoll(c[2])}},
                  stod(c[3]) * 1e-3));
    }
    const auto prefill = rows_of(std::string("aiconfigurator/attn_prefill_") + word + ".csv");
    CHECK(count(machine, "aiconfigurator", "prefill_attention", "bf16") == prefill.size());
    const auto decode = rows_of(std::string("aiconfigurator/attn_decode_") + word + ".csv");
    CHECK(count(machine, "aiconfigurator", "decode_attention", "bf16") +
              count(machine, "aiconfigurator", "decode_attention", "fp8") ==
          decode.size());
    for (std::size_t i = 0; i < decode.size(); i += 499) {
      const auto c = cells(decode[i]);
      CAPTURE(decode[i]);
      CHECK(holds(times,
                  {machine,
                   "decode_attention",
                   c[2] == "fp8" ? "fp8" : "bf16",
                   {stoll(c[3]), stoll(c[4]) + 1, stoll(c[5]), stoll(c[6]), 128}},
                  stod(c[7]) * 1e-3));
    }
  }
  std::size_t halves = 0;
  for (const std::string& row : rows_of("aiconfigurator/nccl.csv")) {
    const auto c = cells(row);
    if (c[3] != "half") continue;
    if (halves++ % 199 != 0) continue;
    CAPTURE(row);
    const std::string kernel = c[2] == "alltoall" ? "all_to_all" : c[2];
    std::string machine;
    for (const auto& [word, name] : gpus) {
      if (c[0] == word) machine = name;
    }
    CHECK(
        holds(times, {machine, kernel, "bf16", {2 * stoll(c[5]), stoll(c[4])}}, stod(c[6]) * 1e-3));
  }
}

TEST_CASE("LLMServingSim and Frontier: attention") {
  const auto times = times_of("LLMServingSim");
  const auto rows = rows_of("llmservingsim/kernel_attention_RTX4090_Llama-3.1-8B_tp1.csv");
  std::size_t imported = 0;
  for (const char* kernel :
       {"prefill_attention", "prefix_attention", "decode_attention", "mixed_attention"}) {
    imported += count("RTX-4090", "LLMServingSim", kernel, "bf16");
  }
  CHECK(imported == rows.size());
  for (std::size_t i = 0; i < rows.size(); i += 97) {
    const auto c = cells(rows[i]);
    CAPTURE(rows[i]);
    const std::int64_t chunk = stoll(c[0]), cached = stoll(c[1]), n = stoll(c[2]), kv = stoll(c[3]);
    std::vector<std::int64_t> shape{chunk, cached, n, kv};
    std::string kernel = "mixed_attention";
    if (n == 0) {
      kernel = cached == 0 ? "prefill_attention" : "prefix_attention";
      shape = cached == 0 ? std::vector<std::int64_t>{1, chunk}
                          : std::vector<std::int64_t>{1, chunk, cached};
    } else if (chunk == 0) {
      kernel = "decode_attention";
      shape = {n, kv};
    }
    for (const std::int64_t size : {32, 8, 128}) shape.push_back(size);
    CHECK(holds(times, {"RTX-4090", kernel, "bf16", shape}, stod(c[4]) * 1e-6));
  }
  const auto h800 = rows_of("frontier/attention_h800_Llama-3.1-405B_prefill_kernelonly.csv");
  CHECK(count("H800", "Frontier", "prefill_attention", "bf16") +
            count("H800", "Frontier", "prefix_attention", "bf16") ==
        h800.size());
}

TEST_CASE("Vidur: fused projections of a layer") {
  const auto times = times_of("vidur");
  const auto rows = rows_of("vidur/mlp_h100_Llama-2-70b-hf.csv");
  for (std::size_t i = 0; i < rows.size(); i += 101) {
    const auto c = cells(rows[i]);  // 64 heads, 8 kv heads, 8192, 28672
    const std::int64_t tp = stoll(c[5]), m = stoll(c[6]);
    CAPTURE(rows[i]);
    CHECK(holds(times, {"H100-SXM", "gemm", "fp16", {m, (64 + 16) * 128 / tp, 8192}},
                stod(c[9]) * 1e-3));
    CHECK(
        holds(times, {"H100-SXM", "gemm", "fp16", {m, 2 * 28672 / tp, 8192}}, stod(c[13]) * 1e-3));
  }
}

TEST_CASE("engines and links") {
  CHECK(count("A100-80-SXM", "splitwise", "serving_step", "fp16") +
            count("H100-SXM", "splitwise", "serving_step", "fp16") +
            count("H100-SXM-capped", "splitwise", "serving_step", "fp16") ==
        rows_of("splitwise/perf_model.csv").size());
  std::size_t broken = 0, batches = 0;
  for (const Sample& sample : everything().samples) {
    broken += sample.set_aside == "broken_upstream";
    batches += sample.source.starts_with("TensorRT") && sample.kernel == "serving_batch";
  }
  CHECK(broken > 0);
  std::size_t throughputs = 0;
  for (const std::string& row : rows_of("e2e_tables/trtllm_v06_static_batch.csv")) {
    throughputs += row.find("throughput_out") != std::string::npos;
  }
  CHECK(batches == throughputs);

  const auto times = times_of("perftest");
  for (const std::string& row : rows_of("rdma/perftest_curves.csv")) {
    const auto c = cells(row);
    CAPTURE(row);
    const std::int64_t bytes = stoll(c[7]);
    if (c[1] == "bandwidth") {
      CHECK(holds(times, {c[0], "nic_message", "", {bytes, 1}},
                  8e-9 * static_cast<double>(bytes) / stod(c[8])));
    } else if (c[1] == "latency_t_typical") {
      CHECK(holds(times, {c[0], "nic_latency", "", {bytes}}, stod(c[8]) * 1e-6));
    }
  }
}

}  // namespace kvlane

int main(int argc, char** argv) {
  if (!std::filesystem::is_directory(kvlane::kFolder)) {
    std::cout << "SKIPPED: no published tables at " << kvlane::kFolder << '\n';
    return 77;
  }
  return doctest::Context(argc, argv).run();
}
