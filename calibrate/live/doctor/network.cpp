// TCP, the interfaces, and what `--shape` needs.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "calibrate/live/doctor/parts.h"

namespace kvlane::live::doctor {
namespace {

constexpr unsigned kCapNetAdmin = 12, kCapSysAdmin = 21;  // linux/capability.h
// 25 Gbit/s over 1 ms.
constexpr std::int64_t kSocketBuffer = std::int64_t{3} << 20U;

void check_congestion(Report& report) {
  const std::string folder = "/proc/sys/net/ipv4/";
  const std::string current = report.files.line(folder + "tcp_congestion_control");
  if (current.empty()) return report.skipped("congestion control", "not told");
  report.ok("congestion control",
            fmt::format("{} (of {})", current,
                        report.files.line(folder + "tcp_available_congestion_control")));
}

// After a pause of one retransmission timeout the window falls back: between two prompts always.
void check_slow_start(Report& report) {
  const std::string name = "tcp_slow_start_after_idle";
  const std::string found = report.files.line("/proc/sys/net/ipv4/" + name);
  if (found.empty()) return report.skipped(name, "not told");
  if (found == "0") return report.ok(name, found);
  report.bad(name, found + ": every pause between prompts costs round trips",
             "sysctl -w net.ipv4." + name + "=0");
}

void check_buffers(Report& report) {
  std::string found, mend;
  bool told = false;
  const auto look = [&](const char* shown, std::optional<std::int64_t> bytes,
                        const std::string& command) {
    if (!bytes) return;
    told = true;
    found += fmt::format("{}{} {}", found.empty() ? "" : ", ", shown, size_text(*bytes));
    if (*bytes < kSocketBuffer) mend += (mend.empty() ? "" : " && ") + command;
  };
  const std::int64_t wanted = std::int64_t{16} << 20U;
  for (const char* const name : {"rmem_max", "wmem_max"}) {
    look(name, report.files.number(std::string("/proc/sys/net/core/") + name),
         fmt::format("sysctl -w net.core.{}={}", name, wanted));
  }
  for (const char* const name : {"tcp_rmem", "tcp_wmem"}) {
    const auto three = words(report.files.line(std::string("/proc/sys/net/ipv4/") + name));
    if (three.size() != 3) continue;
    look(name, whole_number(three[2]),
         fmt::format("sysctl -w net.ipv4.{}='{} {} {}'", name, three[0], three[1], wanted));
  }
  if (!told) return report.skipped("socket buffers", "not told");
  if (mend.empty()) return report.ok("socket buffers", found);
  report.bad("socket buffers", fmt::format("{}; expected {}", found, size_text(kSocketBuffer)),
             mend);
}

void check_loopback(Report& report) {
  if (!report.files.exists("/sys/class/net/lo")) {
    return report.missing("loopback", "/sys does not tell of any", "mount -t sysfs sysfs /sys",
                          {Path::tcp, Path::shm, Path::rdma});
  }
  if (interface_up(report.files, "lo")) return report.ok("loopback", "up");
  report.bad("loopback", "down", "ip link set lo up", {Path::tcp, Path::shm, Path::rdma});
}

void check_interface(Report& report, const std::string& name) {
  const std::string folder = "/sys/class/net/" + name + '/';
  const std::string mtu = report.files.line(folder + "mtu");
  const auto speed = report.files.number(folder + "speed");  // Mbit/s; -1: not known
  const std::string rate = speed && *speed > 0
                               ? fmt::format("{:g} Gbit/s", static_cast<double>(*speed) / 1000)
                               : std::string("speed not told");
  const bool up = interface_up(report.files, name);
  const std::string found =
      fmt::format("{}, {}, MTU {}", up ? "up" : "down", rate, mtu.empty() ? "not told" : mtu);
  if (up) return report.ok("interface " + name, found);
  report.bad("interface " + name, found, "ip link set " + name + " up");
}

// Two namespaces, a veth pair and a token bucket: `compare --sim-vs-live --shape`.
void check_shaping(Report& report) {
  const char* const check = "link shaping";
  if (!report.files.program("ip") || !report.files.program("tc")) {
    return report.missing(check, "no ip or tc", "apt-get install iproute2");
  }
  if (!report.files.exists("/proc/self/ns/net")) {
    return report.missing(check, "a kernel without network namespaces", "");
  }
  if (!has_capability(report.files, kCapNetAdmin) || !has_capability(report.files, kCapSysAdmin)) {
    return report.bad(check, "not root: no namespaces and no tbf for --shape", "sudo kvlane ...");
  }
  report.ok(check, "root, namespaces, ip and tc");
}

}  // namespace

bool interface_up(const MachineFiles& files, const std::string& name) {
  // The flags are what was set; the state, where a driver tells it, is whether there is a link.
  const std::string flags = files.line("/sys/class/net/" + name + "/flags");
  std::uint64_t bits = 0;
  if (flags.rfind("0x", 0) != 0) return false;
  const char* const end = flags.data() + flags.size();
  const auto read = std::from_chars(flags.data() + 2, end, bits, 16);
  if (read.ec != std::errc() || read.ptr != end || (bits & 1U) == 0) return false;
  const std::string state = files.line("/sys/class/net/" + name + "/operstate");
  return state == "up" || state == "unknown";
}

std::vector<std::string> interfaces(const MachineFiles& files) {
  std::vector<std::string> found;
  for (const std::string& name : files.names("/sys/class/net")) {
    if (name == "lo") continue;
    if (files.exists("/sys/class/net/" + name + "/device") || interface_up(files, name))
      found.push_back(name);
  }
  return found;
}

void check_network(Report& report) {
  check_loopback(report);
  const std::vector<std::string> names = interfaces(report.files);
  for (const std::string& name : names) check_interface(report, name);
  if (names.empty()) report.skipped("interfaces", "none beside the loopback");
  check_congestion(report);
  check_slow_start(report);
  check_buffers(report);
  check_shaping(report);
}

}  // namespace kvlane::live::doctor
