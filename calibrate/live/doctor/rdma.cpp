// RDMA devices as /sys/class/infiniband tells them: no library is needed to look.

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "calibrate/live/doctor/parts.h"

namespace kvlane::live::doctor {
namespace {

constexpr const char* kDevices = "/sys/class/infiniband";
constexpr std::size_t kMostGids = 16;

struct Gid {
  std::int64_t index = 0;
  std::array<std::uint8_t, 16> bytes{};
  std::string type, interface;

  bool mapped() const {  // IPv4 in IPv6
    return std::all_of(bytes.begin(), bytes.begin() + 10, [](auto b) { return b == 0; }) &&
           bytes[10] == 0xff && bytes[11] == 0xff;
  }
  bool link_local() const { return bytes[0] == 0xfe && (bytes[1] & 0xc0U) == 0x80; }
  bool usable() const { return type == "RoCE v2" && !link_local(); }
  std::string text() const {
    std::array<char, INET6_ADDRSTRLEN> address{};
    ::inet_ntop(mapped() ? AF_INET : AF_INET6, bytes.data() + (mapped() ? 12 : 0), address.data(),
                static_cast<socklen_t>(address.size()));
    return address.data();
  }
};

// The one that a connection takes when it is told none: IPv4 before IPv6, never one of RoCE v1 or
// a link-local address, which look alike and do not reach the peer.
const Gid* best_of(const std::vector<Gid>& gids) {
  const Gid* best = nullptr;
  for (const Gid& gid : gids) {
    if (gid.usable() && (best == nullptr || (gid.mapped() && !best->mapped()))) best = &gid;
  }
  return best;
}

// Those that are set.
std::vector<Gid> gids_of(const MachineFiles& files, const std::string& port) {
  std::vector<Gid> found;
  std::vector<std::int64_t> indices;
  for (const std::string& name : files.names(port + "/gids")) {
    if (const auto index = whole_number(name)) indices.push_back(*index);
  }
  std::sort(indices.begin(), indices.end());
  for (const std::int64_t index : indices) {
    Gid gid;
    gid.index = index;
    const std::string text = files.line(fmt::format("{}/gids/{}", port, index));
    if (::inet_pton(AF_INET6, text.c_str(), gid.bytes.data()) != 1) continue;
    if (std::all_of(gid.bytes.begin(), gid.bytes.end(), [](auto b) { return b == 0; })) continue;
    gid.type = files.line(fmt::format("{}/gid_attrs/types/{}", port, index));
    gid.interface = files.line(fmt::format("{}/gid_attrs/ndevs/{}", port, index));
    found.push_back(std::move(gid));
  }
  return found;
}

// The largest of the sizes that fits beside the headers (GRH or IPv4 and UDP, BTH, ICRC: 58 bytes,
// with an extended header 74), as drivers compute it.
int path_mtu(std::int64_t interface_mtu) {
  int mtu = 0;
  for (const int size : {256, 512, 1024, 2048, 4096}) {
    if (size + 74 <= interface_mtu) mtu = size;
  }
  return mtu;
}

std::string first_interface(const MachineFiles& files) {
  for (const std::string& name : interfaces(files)) {
    if (interface_up(files, name)) return name;
  }
  return "eth0";
}

// True where connections could be made over the port.
bool check_port(Report& report, const std::string& device, const std::string& number) {
  const MachineFiles& files = report.files;
  const std::string port = fmt::format("{}/{}/ports/{}", kDevices, device, number);
  const std::string check = fmt::format("rdma {}/{}", device, number);
  const std::string state = files.line(port + "/state");  // "4: ACTIVE"
  const std::string link = files.line(port + "/link_layer");
  const std::string rate = files.line(port + "/rate");  // "100 Gb/sec (4X EDR)"
  const std::vector<Gid> gids = gids_of(files, port);
  const Gid* const best = best_of(gids);
  std::string interface = gids.empty() ? "" : gids.front().interface;
  if (best != nullptr) interface = best->interface;
  const std::string shown = interface.empty() ? first_interface(files) : interface;

  std::string found =
      fmt::format("{}, {}, {}", state.empty() ? "state not told" : state,
                  rate.empty() ? "rate not told" : rate, link.empty() ? "link not told" : link);
  if (link == "Ethernet" && !interface.empty()) {
    const auto mtu = files.number("/sys/class/net/" + interface + "/mtu");
    if (mtu)
      found += fmt::format(", {} with MTU {} (paths of {})", interface, *mtu, path_mtu(*mtu));
  }
  if (state.find("ACTIVE") == std::string::npos) {
    report.bad(check, found + "; expected 4: ACTIVE",
               link == "InfiniBand" ? "ibstat " + device + "   (cable, subnet manager: opensm)"
                                    : "ip link set " + shown + " up");
    return false;
  }
  const bool infiniband = link == "InfiniBand";
  if (!infiniband && best == nullptr) {
    report.bad(check, found + "; no GID of RoCE v2 with an address of its own",
               "ip addr add ADDRESS/24 dev " + shown);
    return false;
  }
  report.ok(check, best == nullptr
                       ? found
                       : fmt::format("{}, GID {} ({})", found, best->index, best->text()));
  std::size_t listed = 0;
  for (const Gid& gid : gids) {
    if (++listed > kMostGids) break;
    const std::string what =
        fmt::format("{}, {}, {}", gid.text(), gid.type.empty() ? "type not told" : gid.type,
                    gid.interface.empty() ? "no interface" : gid.interface);
    const std::string name = fmt::format("gid {}/{}/{}", device, number, gid.index);
    if (infiniband || gid.usable()) {
      report.ok(name, what);
    } else {
      report.skipped(name, what + (gid.link_local() ? ": link local" : ": not used"));
    }
  }
  return true;
}

void check_library(Report& report) {
  if (!report.options.built_with_rdma) {
    report.missing("verbs in this build", "none",
                   "apt-get install libibverbs-dev && cmake -DKVLANE_RDMA=ON ...", {Path::rdma});
    return;
  }
  const std::vector<std::string> drivers = report.files.names("/etc/libibverbs.d");
  if (drivers.empty()) {
    report.missing("verbs in this build", "yes, but no device's driver in /etc/libibverbs.d",
                   "apt-get install ibverbs-providers", {Path::rdma});
    return;
  }
  report.ok("verbs in this build", "yes");
}

}  // namespace

bool has_rdma_device(const MachineFiles& files) { return !files.names(kDevices).empty(); }

bool module_loaded(const MachineFiles& files, const std::string& name) {
  const std::string modules = '\n' + files.text("/proc/modules");
  // What is built in has a folder too.
  return modules.find('\n' + name + ' ') != std::string::npos ||
         files.exists("/sys/module/" + name);
}

void check_rdma(Report& report) {
  const MachineFiles& files = report.files;
  check_library(report);
  const std::vector<std::string> devices = files.names(kDevices);
  if (devices.empty()) {
    // Soft-RoCE makes one of any interface.
    return report.missing(
        "rdma devices", fmt::format("none in {}", kDevices),
        fmt::format("modprobe rdma_rxe && rdma link add rxe0 type rxe netdev {}   (a NIC: modprobe "
                    "mlx5_ib)",
                    first_interface(files)),
        {Path::rdma});
  }
  bool usable = false;
  for (const std::string& device : devices) {
    for (const std::string& port : files.names(fmt::format("{}/{}/ports", kDevices, device))) {
      usable = check_port(report, device, port) || usable;
    }
  }
  if (usable) {
    report.ok("rdma devices", fmt::format("{}", fmt::join(devices, ", ")));
  } else {
    report.bad("rdma devices",
               fmt::format("{}: no port that connections can use", fmt::join(devices, ", ")), "",
               {Path::rdma});
  }
  const std::vector<std::string> doors = files.names("/dev/infiniband");
  const bool door = std::any_of(doors.begin(), doors.end(), [](const std::string& name) {
    return name.rfind("uverbs", 0) == 0;
  });
  if (door) return report.ok("verbs device", "/dev/infiniband/uverbs*");
  report.missing("verbs device", "no /dev/infiniband/uverbs*",
                 "modprobe ib_uverbs   (a container: docker run --device /dev/infiniband)",
                 {Path::rdma});
}

}  // namespace kvlane::live::doctor
