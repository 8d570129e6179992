// Memory: how much, how much of it may be pinned, in which pages, and shared how.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "calibrate/live/doctor/parts.h"

namespace kvlane::live::doctor {
namespace {

constexpr unsigned kCapIpcLock = 14;  // linux/capability.h
constexpr std::int64_t kDescriptors = 1024;

// "24684084 kB".
std::optional<std::int64_t> kilobytes(const std::string& text) {
  const auto parts = words(text);
  if (parts.size() != 2 || parts[1] != "kB") return std::nullopt;
  const auto number = whole_number(parts[0]);
  constexpr std::int64_t kMost = std::int64_t{1} << 50U;
  if (!number || *number < 0 || *number > kMost) return std::nullopt;
  return *number * 1024;
}

struct Limit {
  bool told = false, unlimited = false;
  std::int64_t value = 0;
  std::string text() const { return unlimited ? "unlimited" : size_text(value); }
};

// The soft limit of a line of /proc/self/limits.
Limit limit_of(const MachineFiles& files, const std::string& name) {
  std::istringstream lines(files.text("/proc/self/limits"));
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(name, 0) != 0) continue;
    const auto columns = words(line.substr(name.size()));
    if (columns.empty()) continue;
    if (columns[0] == "unlimited") return {true, true, 0};
    if (const auto number = whole_number(columns[0])) return {true, false, *number};
  }
  return {};
}

void check_available(Report& report) {
  const auto total = kilobytes(report.files.value("/proc/meminfo", "MemTotal"));
  auto available = kilobytes(report.files.value("/proc/meminfo", "MemAvailable"));
  if (!total || !available) return report.skipped("memory", "not told");
  std::string found = fmt::format("{} of {} available", size_text(*available), size_text(*total));
  std::optional<std::int64_t> cap;
  const auto take = [&](std::optional<std::int64_t> bytes) {
    if (bytes && *bytes > 0 && *bytes < *total) cap = std::min(cap.value_or(*bytes), *bytes);
  };
  for (const std::string& folder : control_groups(report.files, "")) {
    take(report.files.number(folder + "/memory.max"));
  }
  for (const std::string& folder : control_groups(report.files, "memory")) {
    take(report.files.number(folder + "/memory.limit_in_bytes"));
  }
  if (cap) {
    found += fmt::format(", the container may have {}", size_text(*cap));
    available = std::min(*available, *cap);
  }
  // Two roles on one host: a pool each, and as much again for operands and buffers.
  const std::int64_t wanted = 4 * report.options.pool_bytes;
  if (*available >= wanted) return report.ok("memory", found);
  const bool hopeless = *available < report.options.pool_bytes;
  report.bad("memory", fmt::format("{}; expected {}", found, size_text(wanted)),
             cap ? fmt::format("docker update --memory {}m CONTAINER", wanted >> 20U)
                 : std::string("ps -eo rss,pid,args --sort=-rss | head   (what takes it)"),
             hopeless ? std::vector<Path>{Path::tcp, Path::shm, Path::rdma} : std::vector<Path>{});
}

void check_memlock(Report& report) {
  const Limit limit = limit_of(report.files, "Max locked memory");
  if (!limit.told) return report.skipped("memlock", "not told");
  const std::int64_t wanted = report.options.pool_bytes;
  if (limit.unlimited || limit.value >= wanted) return report.ok("memlock", limit.text());
  if (has_capability(report.files, kCapIpcLock)) {
    return report.ok("memlock", limit.text() + ", which CAP_IPC_LOCK goes beyond");
  }
  report.bad("memlock",
             fmt::format("{}; a role registers {} with the NIC", limit.text(), size_text(wanted)),
             "ulimit -l unlimited   (for good: /etc/security/limits.d/, LimitMEMLOCK=, docker run "
             "--ulimit memlock=-1)",
             {Path::rdma});
}

// The word in brackets.
std::string chosen(const std::string& line) {
  const std::size_t open = line.find('['), close = line.find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) return line;
  return line.substr(open + 1, close - open - 1);
}

void check_huge_pages(Report& report) {
  const std::string folder = "/sys/kernel/mm/transparent_hugepage/";
  const std::string anonymous = chosen(report.files.line(folder + "enabled"));
  const std::string shared = chosen(report.files.line(folder + "shmem_enabled"));
  const auto reserved = whole_number(report.files.value("/proc/meminfo", "HugePages_Total"));
  if (anonymous.empty() && shared.empty()) return report.skipped("huge pages", "not told");
  const std::string found = fmt::format("transparent: {}, in shared memory: {}; reserved: {}",
                                        anonymous.empty() ? "not told" : anonymous,
                                        shared.empty() ? "not told" : shared, reserved.value_or(0));
  std::string mend;
  if (anonymous == "never") mend = fmt::format("echo madvise > {}enabled", folder);
  // Pools are shared memory: with 4 KiB pages a NIC needs 256 translations a MiB.
  if (shared == "never" || shared == "deny") {
    mend += (mend.empty() ? "" : "; ") + fmt::format("echo advise > {}shmem_enabled", folder);
  }
  if (mend.empty()) return report.ok("huge pages", found);
  report.bad("huge pages", found, mend);
}

void check_descriptors(Report& report) {
  const Limit limit = limit_of(report.files, "Max open files");
  if (!limit.told) return report.skipped("open files", "not told");
  const std::string found = limit.unlimited ? "unlimited" : std::to_string(limit.value);
  if (limit.unlimited || limit.value >= kDescriptors) return report.ok("open files", found);
  report.bad("open files", fmt::format("{}; expected {}", found, kDescriptors),
             fmt::format("ulimit -n {}", kDescriptors));
}

void check_shared(Report& report) {
  // 2: only sealed against execution, which the pool does not ask for.
  const auto refused = report.files.number("/proc/sys/vm/memfd_noexec");
  if (refused && *refused >= 2) {
    return report.bad("shared memory",
                      fmt::format("memfd is refused (vm.memfd_noexec {})", *refused),
                      "sysctl -w vm.memfd_noexec=1", {Path::tcp, Path::shm, Path::rdma});
  }
  std::istringstream mounts(report.files.text("/proc/self/mounts"));
  std::string place = "no /dev/shm, which is not needed";
  for (std::string line; std::getline(mounts, line);) {
    const auto parts = words(line);
    if (parts.size() < 4 || parts[1] != "/dev/shm") continue;
    const std::size_t size = parts[3].find("size=");
    std::int64_t kib = 0;
    if (size != std::string::npos) {
      const char* const digits = parts[3].data() + size + 5;
      std::from_chars(digits, parts[3].data() + parts[3].size(), kib);
    }
    constexpr std::int64_t kMost = std::int64_t{1} << 50U;
    place = kib > 0 && kib < kMost ? fmt::format("/dev/shm of {}", size_text(kib * 1024))
                                   : std::string("/dev/shm");
  }
  report.ok("shared memory", "memfd; " + place);
}

}  // namespace

bool has_capability(const MachineFiles& files, unsigned number) {
  const std::string set = files.value("/proc/self/status", "CapEff");
  std::uint64_t bits = 0;
  const char* const end = set.data() + set.size();
  const auto read = std::from_chars(set.data(), end, bits, 16);
  if (set.empty() || read.ec != std::errc() || read.ptr != end) return false;
  // In a user namespace of its own a process has every capability and may lock no more for it.
  const auto map = words(files.line("/proc/self/uid_map"));
  const bool first_namespace = map.size() == 3 && map[1] == "0" && map[2] == "4294967295";
  return first_namespace && (bits >> number & 1U) != 0;
}

void check_memory(Report& report) {
  check_available(report);
  check_memlock(report);
  check_huge_pages(report);
  check_descriptors(report);
  check_shared(report);
}

}  // namespace kvlane::live::doctor
