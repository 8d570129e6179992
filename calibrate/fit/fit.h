#pragma once
// From samples of one machine to its constants: every kernel class that the samples cover is fitted
// on half of the shapes, its error stated on the other half (sim/gpu/sample.h, held_out); what they
// do not cover stays as in the base.

#include <cstddef>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "calibrate/fit/held_out_error.h"
#include "calibrate/fit/short_value.h"
#include "sim/gpu/gpu_spec.h"
#include "sim/gpu/sample.h"

namespace kvlane::calibrate {

// Samples that cannot be fitted: too few, several variants, several machines, no convergence.
class FitError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct FittedConstant {
  std::string key;  // of the hardware file; all_reduce.8.latency
  double value = 0;
  ValueUnit unit = ValueUnit::number;
};

struct KernelReport {
  std::string kernel;   // gemm, gemm_fp8, prefill_attention, ..., all_reduce over 8
  std::string variant;  // of the samples
  std::string source;
  std::size_t available = 0;  // samples for fitting
  std::size_t fitted = 0;     // of these, after thinning
  HeldOutError held_out;
  std::vector<FittedConstant> constants;
  std::vector<std::string> warnings;  // a constant at its bound
};

struct FitOptions {
  // Sample kernel -> part of the source or variant that is wanted.
  std::map<std::string, std::string> variants;
  // Kernels of the samples that stay as in the base.
  std::set<std::string> skip;
  // A kernel that cannot be fitted is left out, with the reason, instead of a FitError: for a
  // machine's own samples, where an interrupted measurement shall not be lost.
  bool lenient = false;
};

struct MachineFit {
  GpuSpec gpu;  // constants, their sources and texts, errors and domains
  std::vector<KernelReport> kernels;
  // Kernels in the samples that nothing was fitted to, and why.
  std::vector<std::string> left_out;
};

// `samples` of one machine. Throws FitError.
MachineFit fit_machine(const std::vector<Sample>& samples, const GpuSpec& base,
                       const FitOptions& options = {});

}  // namespace kvlane::calibrate
