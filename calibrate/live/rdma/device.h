#pragma once
// An opened RDMA device: its port and GID, what it can do, its protection domain, its memory
// regions and its asynchronous events.

#include <infiniband/verbs.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/live/rdma/gid.h"
#include "calibrate/live/rdma/rdma.h"

namespace kvlane::live {

// Owns a verbs object: Verbs<ibv_qp, ibv_destroy_qp>.
template <auto Destroy>
struct VerbsDeleter {
  template <class T>
  void operator()(T* object) const {
    Destroy(object);
  }
};
template <class T, auto Destroy>
using Verbs = std::unique_ptr<T, VerbsDeleter<Destroy>>;
using MemoryRegion = Verbs<ibv_mr, ibv_dereg_mr>;

// Told of events that give no completion.
class DeviceListener {
 public:
  virtual ~DeviceListener() = default;
  // `queue_pair`: its number, 0 where the event is of the whole device or `cq`'s.
  virtual void on_fault(std::uint32_t queue_pair, const ibv_cq* cq, const std::string& reason) = 0;
};

class Device final : public Pollable {
 public:
  Device(WallLoop& loop, const RdmaOptions& options);
  ~Device() override;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  ibv_context* context() const { return context_.get(); }
  ibv_pd* domain() const { return domain_.get(); }
  const ibv_device_attr& limits() const { return limits_; }
  const ibv_port_attr& port() const { return port_; }
  std::uint8_t port_number() const { return port_number_; }
  bool ethernet() const { return port_.link_layer == IBV_LINK_LAYER_ETHERNET; }
  const GidEntry& gid() const { return gid_; }
  std::string name() const { return ibv_get_device_name(context_->device); }

  // Throws RdmaError, which for too little locked memory has the command that mends it.
  MemoryRegion register_memory(void* data, std::size_t bytes, int access, const char* what);

  void add(DeviceListener& listener) { listeners_.push_back(&listener); }
  void remove(DeviceListener& listener);
  void on_ready(int fd, std::uint32_t epoll_events) override;

 private:
  WallLoop& loop_;
  Verbs<ibv_context, ibv_close_device> context_;
  Verbs<ibv_pd, ibv_dealloc_pd> domain_;
  ibv_device_attr limits_{};
  ibv_port_attr port_{};
  std::uint8_t port_number_ = 1;
  GidEntry gid_;
  std::vector<DeviceListener*> listeners_;
};

// A completion's status in words.
std::string_view status_text(ibv_wc_status status);

}  // namespace kvlane::live
