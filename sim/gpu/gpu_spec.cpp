#include "sim/gpu/gpu_spec.h"

#include <algorithm>

namespace kvlane {

const char* to_string(Source source) {
  switch (source) {
    case Source::measured:
      return "measured";
    case Source::table:
      return "table";
    case Source::extrapolated:
      return "extrapolated";
    case Source::datasheet:
      return "datasheet";
    case Source::assumed:
      break;
  }
  return "assumed";
}

Source weakest_source(const GpuSpec& gpu) {
  if (gpu.source.empty()) return Source::assumed;
  Source weakest = Source::measured;
  for (const auto& [key, source] : gpu.source) weakest = std::max(weakest, source);
  return weakest;
}

}  // namespace kvlane
