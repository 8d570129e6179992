#include "calibrate/live/link/link_place.h"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <sched.h>

#include <cstring>
#include <filesystem>
#include <fstream>

namespace kvlane::live {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

bool same_address(const sockaddr* a, const SocketAddress& b) {
  if (a == nullptr || a->sa_family != b.storage.ss_family) return false;
  if (a->sa_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(a)->sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in*>(&b.storage)->sin_addr.s_addr;
  }
  if (a->sa_family != AF_INET6) return false;
  return std::memcmp(&reinterpret_cast<const sockaddr_in6*>(a)->sin6_addr,
                     &reinterpret_cast<const sockaddr_in6*>(&b.storage)->sin6_addr,
                     sizeof(in6_addr)) == 0;
}

std::string interface_with(const SocketAddress& address) {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return "";
  std::string name;
  for (const ifaddrs* i = all; i != nullptr && name.empty(); i = i->ifa_next) {
    if (same_address(i->ifa_addr, address)) name = i->ifa_name;
  }
  ::freeifaddrs(all);
  return name;
}

std::int64_t usable_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

// The named one, or the only one.
std::string rdma_device(const std::string& named, const std::string& root) {
  if (!named.empty()) return named;
  std::string only;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(root + "/sys/class/infiniband", error)) {
    if (!only.empty()) return "";
    only = entry.path().filename().string();
  }
  return only;
}

}  // namespace

LinkPlace link_place(const std::string& transport, const SocketAddress& own,
                     const SocketAddress& peer, bool same_host, const LiveOptions& options,
                     const std::string& root) {
  LinkPlace place;
  place.kernel = first_line(root + "/proc/sys/kernel/osrelease");
  place.processors = usable_processors();
  place.mark = "hardware";
  if (transport == "shm") {
    place.mark = "loopback";
    return place;
  }
  place.interface = interface_with(own);
  const std::string mtu = first_line(root + "/sys/class/net/" + place.interface + "/mtu");
  if (!place.interface.empty() && !mtu.empty()) place.mtu_bytes = std::atoll(mtu.c_str());
  if (transport == "rdma") {
    place.rdma_device = rdma_device(options.rdma_device, root);
    const std::string folder = root + "/sys/class/infiniband/" + place.rdma_device;
    if (place.rdma_device.empty()) return place;
    // A device in software has no bus to sit on.
    if (!std::filesystem::exists(folder + "/device")) place.mark = "rxe";
    if (options.gid_index >= 0) {
      place.gid = first_line(folder + "/ports/1/gids/" + std::to_string(options.gid_index));
    }
    return place;
  }
  if (peer.is_loopback() || same_address(own.raw(), peer)) {
    place.mark = "loopback";
  } else if (same_host) {
    place.mark = "virtual";
  }
  return place;
}

}  // namespace kvlane::live
