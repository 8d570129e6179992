#include "calibrate/live/tcp/tcp_backend.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "calibrate/live/socket/stream_offer.h"
#include "calibrate/live/tcp/tcp_connection.h"

namespace kvlane::live {
namespace {

constexpr std::uint32_t kMostQueues = 256;

class PendingTcp final : public PendingConnection, public Pollable {
 public:
  PendingTcp(WallLoop& loop, Listener* listener, const SocketAddress& peer, ConnectionOwner& owner,
             const ConnectionMemory& memory, const ConnectionOptions& options, Callback ready)
      : loop_(loop),
        listener_(listener),
        peer_(peer),
        owner_(owner),
        memory_(memory),
        options_(options),
        ready_(ready),
        token_(random_token()),
        sockets_(std::size_t{kLaneCount} * options.queues, -1) {
    if (listener_ != nullptr) {
      listener_->on_stream(token_, [this](int fd, const Hello& hello) { accepted(fd, hello); });
    }
  }
  ~PendingTcp() override {
    if (listener_ != nullptr) listener_->forget(token_);
    for (const int fd : sockets_) {
      if (fd < 0) continue;
      if (listener_ == nullptr) loop_.unwatch(fd);
      ::close(fd);
    }
  }

  std::vector<std::byte> offer() override { return encode_stream_offer(options_.queues, token_); }

  void connect(std::span<const std::byte> from_peer) override {
    Token token{};
    const std::string problem =
        decode_stream_offer(from_peer, "TCP streams", options_.queues, token);
    if (!problem.empty()) return fail(problem);
    offered_ = true;
    if (listener_ != nullptr) return finish();
    Hello hello;
    hello.kind = HelloKind::stream;
    hello.token = token;
    for (std::size_t i = 0; i < sockets_.size(); ++i) {
      const int fd =
          ::socket(peer_.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
      if (fd < 0) return fail(fmt::format("a socket: {}", std::strerror(errno)));
      prepare_socket(fd);
      sockets_[i] = fd;
      loop_.watch(fd, EPOLLOUT, *this);
      if (::connect(fd, peer_.raw(), peer_.length) != 0 && errno != EINPROGRESS) {
        return fail(fmt::format("connecting to {}: {}", peer_.text(), std::strerror(errno)));
      }
      hello.lane = static_cast<std::uint8_t>(i / options_.queues);
      hello.queue = static_cast<std::uint32_t>(i % options_.queues);
      hellos_.push_back(encode_hello(hello));
    }
  }

  const std::string& error() const override { return error_; }
  std::unique_ptr<Connection> take() override { return std::move(connection_); }

  // A stream of the active side is connected: it says whose it is.
  void on_ready(int fd, std::uint32_t) override {
    const auto at = static_cast<std::size_t>(std::find(sockets_.begin(), sockets_.end(), fd) -
                                             sockets_.begin());
    int problem = 0;
    socklen_t length = sizeof problem;
    ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &problem, &length);
    if (problem == 0 && ::send(fd, hellos_[at].data(), kHelloBytes, MSG_NOSIGNAL) !=
                            static_cast<ssize_t>(kHelloBytes)) {
      problem = errno;
    }
    if (problem != 0) {
      return fail(fmt::format("connecting to {}: {}", peer_.text(), std::strerror(problem)));
    }
    loop_.unwatch(fd);
    if (++connected_ == sockets_.size()) finish();
  }

 private:
  void accepted(int fd, const Hello& hello) {
    const std::size_t at = std::size_t{hello.lane} * options_.queues + hello.queue;
    if (hello.lane >= kLaneCount || hello.queue >= options_.queues || sockets_[at] >= 0) {
      ::close(fd);
      return;
    }
    sockets_[at] = fd;
    ++connected_;
    finish();
  }

  void finish() {
    if (connected_ < sockets_.size() || !offered_ || done_) return;
    done_ = true;
    if (listener_ != nullptr) listener_->forget(token_);
    std::vector<int> sockets(sockets_.size(), -1);
    sockets.swap(sockets_);
    connection_ = std::make_unique<tcp::TcpConnection>(loop_, owner_, memory_, options_, sockets);
    loop_.schedule_at(loop_.now(), ready_);
  }

  void fail(std::string why) {
    if (done_) return;
    done_ = true;
    error_ = std::move(why);
    loop_.schedule_at(loop_.now(), ready_);
  }

  WallLoop& loop_;
  Listener* listener_;
  SocketAddress peer_;
  ConnectionOwner& owner_;
  ConnectionMemory memory_;
  ConnectionOptions options_;
  Callback ready_;
  Token token_;
  std::vector<int> sockets_;
  std::vector<std::array<std::byte, kHelloBytes>> hellos_;
  std::size_t connected_ = 0;
  bool offered_ = false, done_ = false;
  std::string error_;
  std::unique_ptr<Connection> connection_;
};

}  // namespace

std::unique_ptr<PendingConnection> TcpBackend::prepare(ConnectionOwner& owner,
                                                       const ConnectionMemory& memory,
                                                       const ConnectionOptions& options,
                                                       bool passive, Callback ready) {
  ConnectionOptions bounded = options;
  bounded.queues = std::clamp(options.queues, 1U, kMostQueues);
  return std::make_unique<PendingTcp>(loop_, passive ? listener_ : nullptr, peer_, owner, memory,
                                      bounded, ready);
}

}  // namespace kvlane::live
