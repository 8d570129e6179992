// RDMA behind the backend's interface: a device, the registered pool, and a link for each peer.

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <system_error>

#include "calibrate/live/rdma/link.h"
#include "sim/base/check.h"

namespace kvlane::live {
namespace {

class RdmaConnection final : public Connection {
 public:
  explicit RdmaConnection(std::shared_ptr<Link> link) : link_(std::move(link)) { link_->start(); }
  ~RdmaConnection() override { link_->close(); }
  void post(const Operation& operation) override { link_->post(operation); }
  bool cancel(std::uint64_t id) override { return link_->cancel(id); }
  void close() override { link_->close(); }
  TransportLimits limits() const override { return limits_; }
  const ConnectionCounters& counters() const override { return link_->counters(); }

 private:
  std::shared_ptr<Link> link_;
  TransportLimits limits_ = link_->limits();
};

class RdmaPending final : public PendingConnection {
 public:
  explicit RdmaPending(std::shared_ptr<Link> link) : link_(std::move(link)) {}
  ~RdmaPending() override {
    if (link_) link_->close();
  }
  std::vector<std::byte> offer() override { return link_->offer(); }
  void connect(std::span<const std::byte> from_peer) override { link_->connect(from_peer); }
  const std::string& error() const override { return link_ ? link_->error() : none_; }
  std::unique_ptr<Connection> take() override {
    if (!link_ || !link_->ready()) return nullptr;
    return std::make_unique<RdmaConnection>(std::exchange(link_, nullptr));
  }

 private:
  std::shared_ptr<Link> link_;
  std::string none_;
};

class RdmaBackend final : public Backend, public Pollable {
 public:
  RdmaBackend(WallLoop& loop, Pool& pool, const RdmaOptions& options)
      : pool_memory_(pool), device_(loop, options) {
    if (options.receives < 4 || options.inbox_bytes < 65536 || options.inbox_bytes % 64 != 0 ||
        options.inbox_bytes > (std::uint64_t{1} << 30U) || options.background_bytes < 1 ||
        options.keepalive <= Duration::zero() || options.receiver_retries > 6) {
      throw RdmaError(fmt::format(
          "RDMA with {} receives, an inbox of {} bytes, {} background bytes and {} receiver "
          "retries; "
          "expected at least 4, 64 KiB to 1 GiB in steps of 64, at least 1, and at most 6",
          options.receives, options.inbox_bytes, options.background_bytes,
          options.receiver_retries));
    }
    // Data may land out of order where the device can do that: what tells of it comes through the
    // completion queue. Control memory is registered without (pitfall 18).
    pool_region_ = device_.register_memory(pool.data(), pool.size(),
                                           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                               IBV_ACCESS_REMOTE_READ | IBV_ACCESS_RELAXED_ORDERING,
                                           "the pool");
    shared_.loop = &loop;
    shared_.device = &device_;
    shared_.pool = pool_region_.get();
    shared_.options = options;
    shared_.process_epoch = std::random_device{}();
    // Not a timer of the loop, which would not end for it.
    timer_ = ::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    const auto nanoseconds = options.keepalive.count() / 1000;
    itimerspec every{};
    every.it_interval.tv_sec = nanoseconds / 1'000'000'000;
    every.it_interval.tv_nsec = nanoseconds % 1'000'000'000;
    every.it_value = every.it_interval;
    if (timer_ < 0 || ::timerfd_settime(timer_, 0, &every, nullptr) != 0) {
      const std::string why = std::generic_category().message(errno);
      if (timer_ >= 0) ::close(timer_);
      throw RdmaError("no timer: " + why);
    }
    loop.watch(timer_, EPOLLIN, *this);
  }
  ~RdmaBackend() override {
    shared_.loop->unwatch(timer_);
    ::close(timer_);
    for (const auto& weak : links_) {
      if (const auto link = weak.lock()) link->close();
    }
  }
  RdmaBackend(const RdmaBackend&) = delete;
  RdmaBackend& operator=(const RdmaBackend&) = delete;

  const char* name() const override { return "rdma"; }

  std::unique_ptr<PendingConnection> prepare(ConnectionOwner& owner, const ConnectionMemory& memory,
                                             const ConnectionOptions& options, bool passive,
                                             Callback ready) override {
    KVLANE_CHECK(&memory.local->pool() == &pool_memory_, "a connection over another pool");
    KVLANE_CHECK(options.queues >= 1 && options.queues <= 64, "{} queues a lane", options.queues);
    auto link = std::make_shared<Link>(shared_, owner, memory, options, passive, ready);
    std::erase_if(links_, [](const auto& weak) { return weak.expired(); });
    links_.push_back(link);
    return std::make_unique<RdmaPending>(std::move(link));
  }

  void on_ready(int fd, std::uint32_t) override {
    std::uint64_t ticks = 0;
    [[maybe_unused]] const ssize_t got = ::read(fd, &ticks, sizeof ticks);
    for (std::size_t i = 0; i < links_.size(); ++i) {
      if (const auto link = links_[i].lock()) link->keep_alive();
    }
  }

 private:
  const Pool& pool_memory_;
  Device device_;
  MemoryRegion pool_region_;
  LinkShared shared_;
  std::vector<std::weak_ptr<Link>> links_;
  int timer_ = -1;
};

}  // namespace

RdmaAccess rdma_access() {
  return {[](const RdmaOptions& options) -> std::string {
            try {
              WallLoop loop;
              const Device device(loop, options);
              return {};
            } catch (const RdmaError& error) {
              return error.what();
            }
          },
          &open_rdma};
}

std::unique_ptr<Backend> open_rdma(WallLoop& loop, Pool& pool, const RdmaOptions& options) {
  return std::make_unique<RdmaBackend>(loop, pool, options);
}

}  // namespace kvlane::live
