#pragma once
// What `run` answers (docs/contracts.md, kvlane.result/1): times in seconds, sizes in bytes, shares
// 0..1.

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/scenario/scenario.h"

namespace kvlane {

struct Distribution {
  double mean = 0, p50 = 0, p90 = 0, p99 = 0, max = 0;
  std::optional<double> spread;  // with seeds > 1: standard deviation of the means over seeds
};

struct RequestRow {  // one CSV row of --requests
  std::int64_t seed = 0;
  std::uint32_t request = 0;
  std::int64_t prompt_tokens = 0, output_tokens = 0;
  double ttft_s = 0, ttst_s = 0, second_token_s = 0, stall_s = 0, tbt_mean_s = 0, jct_s = 0;
};

struct TtstParts {
  double prefill_tail = 0, wire = 0, queue = 0, orchestration = 0, fetch = 0, step = 0;
};
struct TtftParts {
  double queue = 0, prefill = 0, wire = 0, orchestration = 0, step = 0;
};

struct Speedup {
  double ttst = 0, second_token = 0, tbt = 0, jct = 0;
};

struct StrategyResult {
  std::string name, policy, endpoint;
  std::string note;  // e.g. where HACK's KV lies, what auto-switch chose
  Distribution ttft_s, ttst_s, second_token_s, stall_s, tbt_s, jct_s;
  TtstParts ttst_parts_s;
  TtftParts ttft_parts_s;
  std::vector<double> ctl_s;  // mean over requests, [output_tokens]
  double prefill_s = 0, transfer_s = 0;
  std::int64_t bytes_control = 0, bytes_on_demand = 0, bytes_proactive = 0, bytes_speculative = 0,
               bytes_metadata = 0, bytes_total = 0;
  std::vector<double> on_demand_ratio;  // one an iteration
  std::optional<std::int64_t> local_after_iteration;
  std::optional<double> attention_mass;
  std::map<std::string, double> utilisation;  // port -> share
  std::optional<double> cost_per_million_tokens;
  std::optional<Speedup> speedup_vs_full;
  std::vector<RequestRow> requests;
};

struct Result {
  std::string scenario;
  std::vector<InputFile> inputs;
  std::uint64_t seed = 1;
  std::string run_hash;  // 16 hex digits
  std::string weakest_source;
  std::string first_token;
  std::vector<std::string> warnings;
  std::string verdict;
  std::vector<StrategyResult> strategies;
};

}  // namespace kvlane
