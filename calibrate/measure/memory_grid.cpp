#include "calibrate/measure/memory_grid.h"

namespace kvlane::calibrate {
namespace {

void add_sizes(std::vector<Sample>& out, const char* kernel, const char* variant, bool beside,
               GridSize size) {
  // Steps of a third to a half: enough for both halves of a fit.
  const int last = size == GridSize::quick ? 24 : 28;
  for (int power = 12; power <= last; ++power) {
    for (const std::int64_t bytes : {std::int64_t{1} << power, std::int64_t{3} << (power - 1),
                                     std::int64_t{5} << (power - 2)}) {
      Sample sample;
      sample.kernel = kernel;
      sample.variant = variant;
      sample.shape = {bytes};
      if (beside) sample.set_aside = "another way to copy";
      out.push_back(std::move(sample));
    }
  }
}

}  // namespace

bool crosses_link(const Sample& sample) {
  const auto is = [&](const char* way) { return sample.variant.rfind(way, 0) == 0; };
  return sample.kernel == "copy" && (is(kToDevice) || is(kToHost) || is(kBothWays) ||
                                     is(kToDevicePageable) || is(kToHostPageable));
}

std::vector<Sample> memory_grid(bool cpu, GridSize size) {
  std::vector<Sample> samples;
  add_sizes(samples, "read", "", false, size);
  add_sizes(samples, "copy", kMemoryCopy, !cpu, size);
  if (cpu) add_sizes(samples, "copy", kMemoryCopyOneThread, true, size);
  return samples;
}

std::vector<Sample> link_grid(bool cpu, GridSize size) {
  std::vector<Sample> samples;
  if (cpu) {
    add_sizes(samples, "copy", kMemoryCopy, false, size);
    add_sizes(samples, "copy", kMemoryCopyBothWays, true, size);
    return samples;
  }
  for (const char* variant : {kToDevice, kToHost, kBothWays, kToDevicePageable, kToHostPageable}) {
    add_sizes(samples, "copy", variant, variant != kToDevice, size);
  }
  return samples;
}

}  // namespace kvlane::calibrate
