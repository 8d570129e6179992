#include "calibrate/live/role/utilisation.h"

#include <algorithm>

#include "sim/port/compute.h"

namespace kvlane::live {

std::vector<std::pair<std::string, double>> utilisation_of(
    const std::vector<TraceRecord>& records, const Places& places,
    const std::function<Bandwidth(EndpointId)>& rate, TimePoint end) {
  std::vector<std::pair<std::string, double>> shares;
  const double seconds = to_seconds(end);
  if (seconds <= 0) return shares;
  std::vector<double> out(places.endpoint_names.size()), in(out.size());
  std::vector<double> busy(places.gpu_names.size());
  for (const TraceRecord& r : records) {
    if (r.kind == TraceKind::transfer) {
      const auto bytes = static_cast<double>((r.bytes + r.mask).count());
      out[r.source.index()] += bytes;
      in[r.destination.index()] += bytes;
    } else if (r.kind == TraceKind::compute && r.gpu.is_valid() &&
               r.detail != static_cast<std::uint8_t>(WorkKind::gather_host) && r.value == 0) {
      busy[r.gpu.index()] += to_seconds(r.end - r.begin);
    }
  }
  for (std::size_t e = 0; e < out.size(); ++e) {
    const double capacity = static_cast<double>(rate(EndpointId(e)).bits_per_sec()) / 8 * seconds;
    shares.emplace_back(places.endpoint_names[e] + " out", std::min(1.0, out[e] / capacity));
    shares.emplace_back(places.endpoint_names[e] + " in", std::min(1.0, in[e] / capacity));
  }
  for (std::size_t g = 0; g < busy.size(); ++g) {
    shares.emplace_back(places.gpu_names[g] + " compute", std::min(1.0, busy[g] / seconds));
  }
  return shares;
}

}  // namespace kvlane::live
