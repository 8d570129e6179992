#include "calibrate/validate/marks.h"

namespace kvlane::calibrate {
namespace {

struct Row {
  const char* what;
  const char* gpu;      // "": any
  const char* variant;  // "": any; else a part of it
  Mark mark;
};

constexpr Row kMarks[] = {
    {"gemm", "A100-80-SXM", "", {0.074}},
    {"gemm", "H100-SXM", "", {0.059}},
    {"gemm", "H200-SXM", "", {0.060}},
    {"gemm", "L40S", "", {0.089}},
    {"gemm", "RTX-PRO-6000", "aiconfigurator", {0.069}},
    {"prefill", "A100-80-SXM", "vllm", {0.072}},
    {"prefill", "H100-SXM", "", {0.081}},
    {"prefill", "H200-SXM", "", {0.082}},
    {"prefill", "L40S", "", {0.141}},
    {"prefill", "RTX-PRO-6000", "aiconfigurator", {0.047}},
    {"prefix", "H100-SXM", "", {0.09}},
    {"prefix", "RTX-4090", "", {0.09}},
    {"prefix", "RTX-PRO-6000", "", {0.09}},
    {"prefix", "H800", "", {0.082}},
    {"decode", "A100-80-SXM", "vllm", {0.072}},
    {"decode", "H100-SXM", "", {0.092}},
    {"decode", "H200-SXM", "", {0.11}},
    {"decode", "L40S", "", {0.065}},
    {"decode", "RTX-4090", "", {0.106}},
    {"decode", "RTX-PRO-6000", "aiconfigurator", {0.023}},
    {"table_gemm", "A100-80-SXM", "", {0.043, Statistic::median}},
    {"table_gemm", "H100-SXM", "", {0.039, Statistic::median}},
    {"table_gemm", "H200-SXM", "", {0.037, Statistic::median}},
    {"table_gemm", "L40S", "", {0.055, Statistic::median}},
    {"e2e_static", "", "", {0.12, Statistic::worst}},
    {"e2e_tpot", "H100-SXM", "trtllm", {0.10, Statistic::median_ratio}},
    {"e2e_tpot", "H100-SXM", "vllm", {0.10, Statistic::median_ratio}},
    {"nic", "", "", {0.05, Statistic::median}},
    {"kv_transfer", "", "", {0.15, Statistic::worst}},
};

}  // namespace

std::optional<Mark> mark_of(const std::string& what, const std::string& gpu,
                            const std::string& variant) {
  for (const Row& row : kMarks) {
    const std::string of_gpu = row.gpu;
    if (what == row.what && (of_gpu.empty() || gpu == of_gpu) &&
        variant.find(row.variant) != std::string::npos) {
      return row.mark;
    }
  }
  return std::nullopt;
}

}  // namespace kvlane::calibrate
