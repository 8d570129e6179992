#include "calibrate/live/rdma/device.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <system_error>

#include "sim/base/check.h"

namespace kvlane::live {
namespace {

using Context = Verbs<ibv_context, ibv_close_device>;
using DeviceList = Verbs<ibv_device*, ibv_free_device_list>;

constexpr const char* kExpected =
    "expected an RDMA NIC with its driver, or Soft-RoCE: modprobe rdma_rxe && rdma link add rxe0 "
    "type rxe netdev eth0";

std::string error_text(int error) { return std::generic_category().message(error); }

std::vector<GidEntry> gids_of(ibv_context* context, std::uint8_t port) {
  std::array<ibv_gid_entry, 256> table{};
  const ssize_t count = ibv_query_gid_table(context, table.data(), table.size(), 0);
  std::vector<GidEntry> entries;
  for (const ibv_gid_entry& row :
       std::span(table).first(static_cast<std::size_t>(std::max<ssize_t>(count, 0)))) {
    if (row.port_num != port) continue;
    GidEntry& entry = entries.emplace_back();
    entry.index = static_cast<int>(row.gid_index);
    entry.type = row.gid_type == IBV_GID_TYPE_ROCE_V2   ? GidType::roce_v2
                 : row.gid_type == IBV_GID_TYPE_ROCE_V1 ? GidType::roce_v1
                                                        : GidType::ib;
    std::memcpy(entry.gid.data(), row.gid.raw, entry.gid.size());
  }
  return entries;
}

struct FoundPort {
  std::uint8_t number = 0;
  ibv_port_attr attributes{};
  GidEntry gid;
};

// The port that the options mean; else `why` says what this device lacks.
std::optional<FoundPort> find_port(ibv_context* context, const RdmaOptions& options,
                                   std::string& why) {
  ibv_device_attr device{};
  if (ibv_query_device(context, &device) != 0) {
    why = "does not answer: " + error_text(errno);
    return std::nullopt;
  }
  if (options.port > device.phys_port_cnt) {
    why = fmt::format("has no port {}, only {}", options.port, device.phys_port_cnt);
    return std::nullopt;
  }
  for (int port = 1; port <= device.phys_port_cnt; ++port) {
    if (options.port != 0 && port != options.port) continue;
    FoundPort found;
    found.number = static_cast<std::uint8_t>(port);
    if (ibv_query_port(context, found.number, &found.attributes) != 0) continue;
    if (found.attributes.state != IBV_PORT_ACTIVE) {
      why = fmt::format("port {} is {}", port, ibv_port_state_str(found.attributes.state));
      continue;
    }
    const auto gid =
        choose_gid(gids_of(context, found.number), options.gid_index, options.address, why);
    if (!gid) continue;
    found.gid = *gid;
    return found;
  }
  return std::nullopt;
}

// ENOMEM of a registration is nearly always the limit of locked memory (pitfall 14).
std::string registration_error(int error, std::size_t bytes, const char* what) {
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  if (error == ENOMEM && limit.rlim_cur != RLIM_INFINITY) {
    return fmt::format(
        "cannot register {} with the RDMA device: needs {} KiB of locked memory, the limit is {} "
        "KiB; mend it with `ulimit -l unlimited` (for good: `* - memlock unlimited` in "
        "/etc/security/limits.conf)",
        what, (bytes + 1023) / 1024, limit.rlim_cur / 1024);
  }
  return fmt::format("cannot register {} ({} bytes) with the RDMA device: {}", what, bytes,
                     error_text(error));
}

}  // namespace

Device::Device(WallLoop& loop, const RdmaOptions& options) : loop_(loop) {
  int count = 0;
  const DeviceList list(ibv_get_device_list(&count));
  if (!list || count == 0)
    throw RdmaError(fmt::format("no RDMA device: none is there; {}", kExpected));
  std::string seen;
  for (ibv_device* device : std::span(list.get(), static_cast<std::size_t>(count))) {
    const std::string name = ibv_get_device_name(device);
    std::string why = "is not the one asked for";
    if (options.device.empty() || options.device == name) {
      Context context(ibv_open_device(device));
      why = context ? "" : "cannot be opened: " + error_text(errno);
      if (context) {
        if (auto found = find_port(context.get(), options, why)) {
          context_ = std::move(context);
          port_ = found->attributes;
          port_number_ = found->number;
          gid_ = found->gid;
          break;
        }
      }
    }
    seen += fmt::format("{}{}: {}", seen.empty() ? "" : "; ", name, why);
  }
  if (!context_) {
    throw RdmaError(fmt::format("no RDMA device: {}; expected {} with an active port{}", seen,
                                options.device.empty() ? "one" : "`" + options.device + "`",
                                options.address.empty() ? "" : " that has " + options.address));
  }
  if (ibv_query_device(context_.get(), &limits_) != 0 || limits_.max_srq == 0) {
    throw RdmaError(
        fmt::format("RDMA device {} has no shared receive queues; expected some", name()));
  }
  domain_.reset(ibv_alloc_pd(context_.get()));
  if (!domain_) throw RdmaError("no protection domain: " + error_text(errno));
  const int fd = context_->async_fd;
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  loop_.watch(fd, EPOLLIN, *this);
}

Device::~Device() {
  if (context_) loop_.unwatch(context_->async_fd);
}

MemoryRegion Device::register_memory(void* data, std::size_t bytes, int access, const char* what) {
  MemoryRegion region(ibv_reg_mr(domain_.get(), data, bytes, static_cast<unsigned int>(access)));
  if (!region) throw RdmaError(registration_error(errno, bytes, what));
  return region;
}

void Device::remove(DeviceListener& listener) {
  std::replace(listeners_.begin(), listeners_.end(), &listener,
               static_cast<DeviceListener*>(nullptr));
}

void Device::on_ready(int, std::uint32_t) {
  ibv_async_event event{};
  while (context_ && ibv_get_async_event(context_.get(), &event) == 0) {
    std::uint32_t queue_pair = 0;
    const ibv_cq* cq = nullptr;
    bool fatal = true;
    switch (event.event_type) {
      case IBV_EVENT_QP_FATAL:
      case IBV_EVENT_QP_REQ_ERR:
      case IBV_EVENT_QP_ACCESS_ERR:
        queue_pair = event.element.qp->qp_num;
        break;
      case IBV_EVENT_CQ_ERR:
        cq = event.element.cq;
        break;
      case IBV_EVENT_SRQ_ERR:
      case IBV_EVENT_DEVICE_FATAL:
        break;
      default:
        fatal = false;  // a port that goes down may come back within the retries
    }
    const std::string reason =
        fmt::format("RDMA device {}: {}", name(), ibv_event_type_str(event.event_type));
    // Before anyone hears of it: a queue pair is not destroyed while an event of it is open.
    ibv_ack_async_event(&event);
    if (!fatal) continue;
    for (std::size_t i = 0; i < listeners_.size(); ++i) {
      if (listeners_[i] != nullptr) listeners_[i]->on_fault(queue_pair, cq, reason);
    }
    std::erase(listeners_, nullptr);
  }
}

std::string_view status_text(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
      return "the peer does not answer (retries exhausted)";
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return "the peer has no receive posted (retries exhausted)";
    case IBV_WC_REM_ACCESS_ERR:
      return "the peer's memory is not open to this access";
    case IBV_WC_REM_INV_REQ_ERR:
      return "the peer's device refuses the request";
    case IBV_WC_REM_OP_ERR:
      return "the peer's device failed";
    case IBV_WC_LOC_PROT_ERR:
      return "local memory is not registered for this access";
    case IBV_WC_LOC_LEN_ERR:
      return "a message is longer than its buffer";
    case IBV_WC_LOC_QP_OP_ERR:
      return "the local device cannot carry the request out";
    case IBV_WC_WR_FLUSH_ERR:
      return "the queue pair was shut";
    default:
      return ibv_wc_status_str(status);
  }
}

std::vector<RdmaPort> list_rdma_ports() {
  std::vector<RdmaPort> ports;
  int count = 0;
  const DeviceList list(ibv_get_device_list(&count));
  if (!list) return ports;
  for (ibv_device* device : std::span(list.get(), static_cast<std::size_t>(count))) {
    const Context context(ibv_open_device(device));
    ibv_device_attr limits{};
    if (!context || ibv_query_device(context.get(), &limits) != 0) continue;
    for (std::uint8_t number = 1; number <= limits.phys_port_cnt; ++number) {
      ibv_port_attr attributes{};
      if (ibv_query_port(context.get(), number, &attributes) != 0) continue;
      RdmaPort& port = ports.emplace_back();
      port.device = ibv_get_device_name(device);
      port.port = number;
      port.state = ibv_port_state_str(attributes.state);
      port.link_layer =
          attributes.link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "InfiniBand";
      port.mtu_bytes = 128 << static_cast<int>(attributes.active_mtu);
      for (const GidEntry& gid : gids_of(context.get(), number)) {
        port.gids.push_back(fmt::format("{}: {} {}", gid.index, gid_text(gid.gid),
                                        gid.type == GidType::roce_v2   ? "RoCE v2"
                                        : gid.type == GidType::roce_v1 ? "RoCE v1"
                                                                       : "IB"));
      }
    }
  }
  return ports;
}

}  // namespace kvlane::live
