#pragma once
// Samples made from known constants by formulas written here, not by the cost model.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "../gpu_support.h"
#include "sim/gpu/sample.h"

namespace kvlane::test {

inline Sample sample_of(const char* kernel, std::vector<std::int64_t> shape, double seconds) {
  Sample sample;
  sample.machine = "round";
  sample.source = "a test";
  sample.licence = "none";
  sample.variant = "lib-1";
  sample.kernel = kernel;
  sample.shape = std::move(shape);
  sample.dtype = "bf16";
  sample.seconds = seconds;
  return sample;
}

// Every other sample e^noise times longer, the others shorter: known error, no bias.
inline void add_noise(std::vector<Sample>& samples, double noise) {
  std::size_t count[2] = {0, 0};  // of each half apart, so that neither is biased
  for (Sample& sample : samples) {
    const std::size_t i = count[held_out(sample) ? 1 : 0]++;
    sample.seconds *= std::exp(i % 2 == 0 ? noise : -noise);
  }
}

inline double smooth_max(double a, double b, double p) {
  return std::pow(std::pow(a, p) + std::pow(b, p), 1 / p);
}

// 100 TFLOP/s, 1 TB/s: t = 5 us + max_1.8(F / (80 % P), B / (70 % BW)).
inline std::vector<Sample> gemm_samples() {
  std::vector<Sample> samples;
  for (const double m : {1, 4, 16, 48, 100, 128, 200, 256, 400, 512, 1024, 2048, 4096, 8192}) {
    for (const double n : {2048, 3072, 4096, 8192}) {
      for (const double k : {2048, 4096, 6144}) {
        const double bytes = 2 * (m * k + n * k + m * n);
        const double t = 5e-6 + smooth_max(2 * m * n * k / 80e12, bytes / 0.7e12, 1.8);
        samples.push_back(sample_of("gemm",
                                    {static_cast<std::int64_t>(m), static_cast<std::int64_t>(n),
                                     static_cast<std::int64_t>(k)},
                                    t));
      }
    }
  }
  return samples;
}

}  // namespace kvlane::test
