// Processors, the kernel and its clock.

#include <fmt/format.h>

#include <algorithm>

#include "calibrate/live/doctor/parts.h"

namespace kvlane::live::doctor {
namespace {

// Of a list as "0-3,8,10-11"; none where it is not one.
std::optional<std::int64_t> listed(const std::string& list) {
  std::int64_t count = 0;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t comma = std::min(list.find(',', at), list.size());
    const std::string range = list.substr(at, comma - at);
    const std::size_t dash = range.find('-');
    const auto first = whole_number(range.substr(0, dash));
    const auto last = dash == std::string::npos ? first : whole_number(range.substr(dash + 1));
    constexpr std::int64_t kMost = 1 << 20;
    if (!first || !last || *first < 0 || *last < *first || *last > kMost) return std::nullopt;
    count += *last - *first + 1;
    at = comma + 1;
  }
  return count;
}

// This process's group in the hierarchy of `controller` ("" of cgroup 2).
std::string group_of(const MachineFiles& files, const std::string& controller) {
  const std::string text = files.text("/proc/self/cgroup");
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    const std::size_t first = line.find(':');
    if (first == std::string::npos) continue;
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    if (line.substr(first + 1, second - first - 1) == controller) return line.substr(second + 1);
  }
  return "";
}

// The tightest quota of this group and those above it, in processors.
std::optional<double> quota(const MachineFiles& files) {
  std::optional<double> least;
  const auto take = [&](std::optional<std::int64_t> us, std::optional<std::int64_t> period) {
    if (!us || !period || *us <= 0 || *period <= 0) return;
    const double processors = static_cast<double>(*us) / static_cast<double>(*period);
    least = std::min(least.value_or(processors), processors);
  };
  for (const std::string& folder : control_groups(files, "")) {
    const auto max = words(files.line(folder + "/cpu.max"));
    if (max.size() == 2) take(whole_number(max[0]), whole_number(max[1]));
  }
  for (const char* const controller : {"cpu", "cpu,cpuacct"}) {
    for (const std::string& folder : control_groups(files, controller)) {
      take(files.number(folder + "/cpu.cfs_quota_us"), files.number(folder + "/cpu.cfs_period_us"));
    }
  }
  return least;
}

void check_count(Report& report) {
  const std::string list = report.files.value("/proc/self/status", "Cpus_allowed_list");
  const auto count = listed(list);
  if (!count) {
    return report.skipped("processors",
                          list.empty() ? "not told" : fmt::format("'{}' is no list", list));
  }
  const auto limit = quota(report.files);
  std::string found = fmt::format("{} may be used ({})", *count, list);
  if (limit) found += fmt::format(", the container's quota is {:.4g}", *limit);
  const double usable = std::min(static_cast<double>(*count), limit.value_or(1e9));
  if (usable >= 2) return report.ok("processors", found);
  report.bad(
      "processors", found + "; two roles on one host want one each",
      limit && *limit < 2 ? "docker update --cpus 2 CONTAINER" : "taskset -c 0-1 kvlane ...");
}

void check_kernel(Report& report) {
  const std::string release = report.files.line("/proc/sys/kernel/osrelease");
  const auto version = kernel_version(report.files);
  const std::string found = "Linux " + release;
  if (!version) {
    return report.skipped("kernel", release.empty() ? "not told" : found + ", no version");
  }
  // epoll_pwait2 of the event loop.
  if (*version >= std::pair<std::int64_t, std::int64_t>(5, 11)) return report.ok("kernel", found);
  report.bad("kernel", found + "; expected 5.11 or newer",
             "apt-get install linux-image-amd64 && reboot", {Path::tcp, Path::shm, Path::rdma});
}

void check_clock(Report& report) {
  const std::string folder = "/sys/devices/system/clocksource/clocksource0/";
  const std::string current = report.files.line(folder + "current_clocksource");
  if (current.empty()) return report.skipped("clock", "not told");
  // Read without the kernel's help; the others take microseconds a look.
  constexpr const char* kFast[] = {
      "tsc", "kvm-clock",        "arch_sys_counter", "hyperv_clocksource_tsc_page",
      "xen", "riscv_clocksource"};
  for (const char* const fast : kFast) {
    if (current == fast) return report.ok("clock", current);
  }
  const auto others = words(report.files.line(folder + "available_clocksource"));
  std::string mend;
  for (const char* const fast : kFast) {
    if (!mend.empty() || std::find(others.begin(), others.end(), fast) == others.end()) continue;
    mend = fmt::format("echo {} > {}current_clocksource", fast, folder);
  }
  report.bad("clock", current + ": slow to read, which every measured time pays for", mend);
}

}  // namespace

std::vector<std::string> control_groups(const MachineFiles& files, const std::string& controller) {
  const std::string mount = controller.empty() ? "/sys/fs/cgroup" : "/sys/fs/cgroup/" + controller;
  std::vector<std::string> folders;
  for (std::string group = group_of(files, controller); group.size() > 1;) {
    folders.push_back(mount + group);
    group.erase(std::min(group.find_last_of('/'), group.size()));
  }
  folders.push_back(mount);
  return folders;
}

std::optional<std::pair<std::int64_t, std::int64_t>> kernel_version(const MachineFiles& files) {
  const std::string release = files.line("/proc/sys/kernel/osrelease");
  const std::size_t dot = release.find('.');
  if (dot == std::string::npos) return std::nullopt;
  const std::size_t end =
      std::min(release.find_first_not_of("0123456789", dot + 1), release.size());
  const auto major = whole_number(release.substr(0, dot));
  const auto minor = whole_number(release.substr(dot + 1, end - dot - 1));
  if (!major || !minor) return std::nullopt;
  return std::pair{*major, *minor};
}

void check_processors(Report& report) {
  check_count(report);
  check_kernel(report);
  check_clock(report);
}

}  // namespace kvlane::live::doctor
