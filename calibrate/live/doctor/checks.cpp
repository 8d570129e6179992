#include "calibrate/live/doctor/checks.h"

#include <fmt/format.h>

#include <algorithm>

#include "calibrate/live/doctor/parts.h"

namespace kvlane::live::doctor {

const char* to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::ok:
      return "ok";
    case Verdict::missing:
      return "missing";
    case Verdict::bad:
      return "bad";
    case Verdict::skipped:
      return "skipped";
  }
  return "?";
}

const char* to_string(Path path) {
  switch (path) {
    case Path::tcp:
      return "tcp";
    case Path::shm:
      return "shm";
    case Path::rdma:
      return "rdma";
    case Path::cuda:
      return "cuda";
  }
  return "?";
}

const Row* Diagnosis::obstacle(Path path) const {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const Row& row) {
    return (row.verdict == Verdict::missing || row.verdict == Verdict::bad) &&
           std::find(row.stands.begin(), row.stands.end(), path) != row.stands.end();
  });
  return found == rows.end() ? nullptr : &*found;
}

std::string size_text(std::int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto size = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; size >= 1024 && unit + 1 < std::size(kUnits); ++unit) size /= 1024;
  return size < 10 && unit > 0 ? fmt::format("{:.1f} {}", size, kUnits[unit])
                               : fmt::format("{:.0f} {}", size, kUnits[unit]);
}

Diagnosis diagnose(const Options& options) {
  Report report(options);
  check_processors(report);
  check_memory(report);
  check_network(report);
  check_rdma(report);
  check_gpus(report);
  check_tools(report);
  return {std::move(report.rows)};
}

}  // namespace kvlane::live::doctor
