#pragma once
// Which constants a kernel class has, within what bounds they are searched, and which samples speak
// about them.

#include <functional>
#include <string>
#include <vector>

#include "calibrate/fit/short_value.h"
#include "sim/gpu/gpu_spec.h"
#include "sim/gpu/sample.h"

namespace kvlane::calibrate {

struct Constant {
  std::string key;  // of the hardware file
  ValueUnit unit = ValueUnit::number;
  std::function<double&(GpuSpec&)> in;
  double low = 0, high = 0;
  std::vector<double> starts;
  bool may_vanish = false;  // at its low end it is 0: there is no such cost
  bool may_hide = false;    // at its high end, a rate that never counts: it is 0
};

struct FitRule {
  std::string name;    // of the report: gemm, gemm_fp8, ...
  std::string kernel;  // of the samples
  bool fp8 = false;
  std::int64_t ranks = 0;  // all_reduce: of how many GPUs
  KernelClass kernel_class = KernelClass::gemm;
  bool states_error = true;     // of the class; the 8-bit kernels and mixed batches do not
  bool pools_variants = false;  // kernels that differ in nothing that the formula knows
  std::vector<Constant> constants;
};

// In the order in which they are fitted: later formulas use constants of earlier ones. All-reduces
// over the numbers of GPUs that the samples have.
std::vector<FitRule> fit_rules(const std::vector<Sample>& samples);

// Decode attention over caches in L2: taken only where hardly any sample lies beyond (fit.cpp).
enum class SmallCaches : std::uint8_t { leave, take };

// The sample is of the rule's kernel and data type, and in the domain of its fit.
bool speaks_about(const FitRule& rule, const GpuSpec& gpu, const Sample& sample,
                  SmallCaches small = SmallCaches::leave);

// Without samples that tell it from 0 the constant is not searched: decode_walk, which only kernels
// with one query head a kv head show.
bool is_visible(const Constant& constant, const std::vector<const Sample*>& samples);

}  // namespace kvlane::calibrate
