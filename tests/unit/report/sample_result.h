#pragma once
// A result whose sums hold, small enough to check by hand.

#include "sim/report/result.h"

namespace kvlane::test {

inline Distribution flat(double value) { return {value, value, value, value, value, std::nullopt}; }

inline StrategyResult sample_strategy(const std::string& name, double wire) {
  StrategyResult s;
  s.name = name;
  s.policy = name;
  s.endpoint = name == "hack" ? "compressed" : "exact";
  // 0.25 + wire + 0.125 + 0.0625 + 0 + 0.0625 = 0.5 + wire: exact in binary.
  s.ttst_parts_s = {0.25, wire, 0.125, 0.0625, 0, 0.0625};
  s.ttst_s = flat(0.5 + wire);
  s.ttft_parts_s = {0, 1.0, 0, 0, 0.5};
  s.ttft_s = flat(1.5);
  s.second_token_s = flat(2.0 + wire);
  s.stall_s = flat(0.25 + wire);
  s.tbt_s = flat(0.0625);
  s.jct_s = flat(6.0 + wire);
  s.ctl_s = {1.5, 2.0 + wire};
  s.prefill_s = 1.0;
  s.transfer_s = 1.25 + wire;
  s.bytes_control = 1000;
  s.bytes_on_demand = 20'000;
  s.bytes_proactive = 3'000'000;
  s.bytes_speculative = 400'000;
  s.bytes_metadata = 50'000;
  s.bytes_total = 3'471'000;
  s.on_demand_ratio = {0.34, 0.2, 0.1, 0.05, 0.025};
  s.local_after_iteration = 22;
  s.attention_mass = 0.97;
  s.utilisation = {{"decode rx", 0.875}, {"prefill-0 tx", 0.25}, {"prefill-0 rx", 0.0001}};
  s.requests.push_back(
      {1, 0, 10'000, 64, 1.5, 0.5 + wire, 2.0 + wire, 0.25 + wire, 0.0625, 6.0 + wire});
  return s;
}

inline Result sample_result() {
  Result r;
  r.scenario = "sample";
  r.inputs = {{"scenarios/sample.yaml", "ab12"}};
  r.seed = 7;
  r.run_hash = "0123456789abcdef";
  r.weakest_source = "datasheet";
  r.first_token = "prefill";
  r.warnings = {"profile assumed from SmolLM2"};
  r.verdict = "run full here; below 10 Gbps hack";
  r.strategies = {sample_strategy("full", 4.0), sample_strategy("hack", 1.0)};
  r.strategies[0].speedup_vs_full = Speedup{1, 1, 1, 1};
  r.strategies[1].speedup_vs_full = Speedup{3, 2, 1, 10.0 / 7.0};
  r.strategies[1].cost_per_million_tokens = 12.5;
  r.strategies[1].note = "KV on the GPU";
  return r;
}

// The same with all that a run with tables, sizes beyond the fits and draws has.
inline Result uncertain_result() {
  Result r = sample_result();
  r.weakest_constant = "L20 host_step";
  r.outside_domain = {{"L20", "prefill_attention", "tokens", 48'000, 64, 16'384},
                      {"L20", "gemm", "m", 1, 2, 16'384},
                      {"L20", "gemm", "n", 128, 2048, 65'536}};
  r.from_table = {{"L20", "gemm", 12, 3, "m=3, n=4096, k=4096"}, {"L20", "collective", 1, 0, ""}};
  r.without_error = {"L20 (host)", "erdma"};
  for (StrategyResult& s : r.strategies) {
    for (Distribution* d :
         {&s.ttft_s, &s.ttst_s, &s.second_token_s, &s.stall_s, &s.tbt_s, &s.jct_s})
      d->interval = Interval{0.75 * d->mean, 1.5 * d->mean};
  }
  r.uncertainty = Uncertainty{
      200, {{"hack", "full", "ttst_s", 0.4, 0.25, 0.5}, {"hack", "full", "jct_s", 0.8, 0.5, 1.25}}};
  return r;
}

}  // namespace kvlane::test
