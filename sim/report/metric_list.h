#pragma once
// The metrics of a strategy by name: one list from which JSON, CSV, comparison and studies read, so
// that a metric is added in one place.

#include <array>

#include "sim/report/result.h"

namespace kvlane {

struct MetricEntry {
  const char* name;  // key in the result, unit included
  Distribution StrategyResult::*member;
};

inline constexpr std::array<MetricEntry, 6> kMetrics{{
    {"ttft_s", &StrategyResult::ttft_s},
    {"ttst_s", &StrategyResult::ttst_s},
    {"second_token_s", &StrategyResult::second_token_s},
    {"stall_s", &StrategyResult::stall_s},
    {"tbt_s", &StrategyResult::tbt_s},
    {"jct_s", &StrategyResult::jct_s},
}};

struct StatEntry {
  const char* name;
  double Distribution::*member;
};

inline constexpr std::array<StatEntry, 5> kStats{{
    {"mean", &Distribution::mean},
    {"p50", &Distribution::p50},
    {"p90", &Distribution::p90},
    {"p99", &Distribution::p99},
    {"max", &Distribution::max},
}};

struct TtstPartEntry {
  const char* name;
  double TtstParts::*member;
};

// In the order of time: what happens first stands first.
inline constexpr std::array<TtstPartEntry, 6> kTtstParts{{
    {"prefill_tail", &TtstParts::prefill_tail},
    {"wire", &TtstParts::wire},
    {"queue", &TtstParts::queue},
    {"orchestration", &TtstParts::orchestration},
    {"fetch", &TtstParts::fetch},
    {"step", &TtstParts::step},
}};

struct TtftPartEntry {
  const char* name;
  double TtftParts::*member;
};

inline constexpr std::array<TtftPartEntry, 5> kTtftParts{{
    {"queue", &TtftParts::queue},
    {"prefill", &TtftParts::prefill},
    {"wire", &TtftParts::wire},
    {"orchestration", &TtftParts::orchestration},
    {"step", &TtftParts::step},
}};

struct LaneBytesEntry {
  const char* name;
  std::int64_t StrategyResult::*member;
};

// `metadata` is counted in its own entry only; `total` is the sum of the others.
inline constexpr std::array<LaneBytesEntry, 6> kLaneBytes{{
    {"control", &StrategyResult::bytes_control},
    {"on_demand", &StrategyResult::bytes_on_demand},
    {"proactive", &StrategyResult::bytes_proactive},
    {"speculative", &StrategyResult::bytes_speculative},
    {"metadata", &StrategyResult::bytes_metadata},
    {"total", &StrategyResult::bytes_total},
}};

struct SpeedupEntry {
  const char* name;
  double Speedup::*member;
};

inline constexpr std::array<SpeedupEntry, 4> kSpeedups{{
    {"ttst", &Speedup::ttst},
    {"second_token", &Speedup::second_token},
    {"tbt", &Speedup::tbt},
    {"jct", &Speedup::jct},
}};

}  // namespace kvlane
