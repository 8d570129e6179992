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

struct Interval {
  double low = 0, high = 0;
};

struct Distribution {
  double mean = 0, p50 = 0, p90 = 0, p99 = 0, max = 0;
  std::optional<double> spread;  // with seeds > 1: standard deviation of the means over seeds
  std::optional<Interval> interval = {};  // with --uncertainty: 5 % and 95 % of the draws' means
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

// A size beyond the domain of a kernel's fit: the farthest of the run.
struct OutsideDomain {
  std::string gpu, kernel, dimension;
  double value = 0, low = 0, high = 0;
};

// How many shapes of a kernel a measured table answered, and how many its formula.
struct TableUse {
  std::string gpu, kernel;
  std::int64_t inside = 0, outside = 0;
  std::string first_outside;  // "m=3, n=4096, k=4096"; empty where none is
};

// metric(of) / metric(against) of the nominal run; the quantiles are over draws in which both
// strategies had the same errors.
struct RatioInterval {
  std::string of, against;
  std::string metric;  // "ttst_s"
  double ratio = 0, low = 0, high = 0;
};

inline constexpr int kFewestDraws = 2;
inline constexpr int kMostDraws = 10'000;

struct Uncertainty {
  std::int64_t draws = 0;
  std::vector<RatioInterval> ratios;  // of every pair: against `full`, else against the earlier one
};

// Of a run on real transports and kernels.
struct LivePeer {
  std::string address, transport;
  double clock_error_s = 0, round_trip_s = 0;
};
struct LiveFacts {
  std::string compute;
  std::vector<LivePeer> peers;
  std::int64_t verified_bytes = 0;  // looked at where they arrived; 0 without --verify
};

struct Result {
  std::string scenario;
  std::vector<InputFile> inputs;
  std::uint64_t seed = 1;
  std::string run_hash;  // 16 hex digits
  std::string weakest_source;
  std::string weakest_constant;  // "L20 host_step"; empty where no number has a source
  std::vector<OutsideDomain> outside_domain;
  std::vector<TableUse> from_table;
  std::vector<std::string> without_error;  // "L20 (small, host)", "erdma": used
  std::string first_token;
  std::vector<std::string> warnings;
  std::string verdict;
  std::vector<StrategyResult> strategies;
  std::optional<Uncertainty> uncertainty;
  std::optional<LiveFacts> live;  // none: simulated
};

}  // namespace kvlane
