#include "calibrate/live/shm/shm_backend.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "calibrate/live/shm/shm_connection.h"
#include "calibrate/live/socket/stream_offer.h"

namespace kvlane::live {
namespace {

constexpr std::uint32_t kMostQueues = 64;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;

// What goes with the descriptors: pool, rings, event.
struct Card {
  Token token{};
  std::uint64_t pool_bytes = 0, ring_bytes = 0;
};
constexpr std::size_t kDescriptors = 3;

sockaddr_un name_of(const Token& token, socklen_t& length) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::string name = "kvlane-";
  for (const std::uint8_t byte : token) name += fmt::format("{:02x}", byte);
  std::memcpy(address.sun_path + 1, name.data(), name.size());  // abstract: no file stays behind
  length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

std::string sealed_problem(int fd, std::uint64_t bytes) {
  struct stat status {};
  if (::fstat(fd, &status) != 0 || static_cast<std::uint64_t>(status.st_size) != bytes) {
    return fmt::format("shared memory of {} bytes where {} were told", status.st_size, bytes);
  }
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) return "shared memory that could shrink";
  return {};
}

// One that nothing waits on when it is full.
bool is_event(int fd) {
  std::array<char, 64> text{};
  const std::string link = fmt::format("/proc/self/fd/{}", fd);
  return ::readlink(link.c_str(), text.data(), text.size() - 1) > 0 &&
         std::strcmp(text.data(), "anon_inode:[eventfd]") == 0 &&
         ::fcntl(fd, F_SETFL, O_NONBLOCK) == 0;
}

class PendingShm final : public PendingConnection, public Pollable {
 public:
  PendingShm(WallLoop& loop, Pool& pool, ConnectionOwner& owner, const ConnectionMemory& memory,
             const ConnectionOptions& options, bool passive, Callback ready)
      : loop_(loop),
        pool_(pool),
        owner_(owner),
        memory_(memory),
        options_(options),
        ready_(ready),
        passive_(passive),
        token_(random_token()) {
    const std::size_t bytes = kRingStride * kLaneCount * options_.queues;
    const int fd = ::memfd_create("kvlane rings", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(bytes)) != 0 ||
        ::fcntl(fd, F_ADD_SEALS, kSeals | F_SEAL_SEAL) != 0) {
      const int error = errno;
      if (fd >= 0) ::close(fd);
      throw std::system_error(error, std::generic_category(), "memory of rings");
    }
    sides_.own_rings = Mapping(fd, bytes);
    for (std::size_t i = 0; i < std::size_t{kLaneCount} * options_.queues; ++i) {
      new (sides_.own_rings.data() + i * kRingStride) RingHead();
    }
    sides_.own_event = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (passive_) listen();
  }
  ~PendingShm() override {
    for (const int fd : {listening_, sides_.socket}) {
      if (fd < 0) continue;
      loop_.unwatch(fd);
      ::close(fd);
    }
    for (const int fd : {sides_.own_event, sides_.peer_event}) {
      if (fd >= 0) ::close(fd);
    }
  }

  std::vector<std::byte> offer() override { return encode_stream_offer(options_.queues, token_); }

  void connect(std::span<const std::byte> from_peer) override {
    Token token{};
    const std::string problem =
        decode_stream_offer(from_peer, "shared memory", options_.queues, token);
    if (!problem.empty()) return fail(problem);
    if (passive_) return;
    token_ = token;
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return fail(fmt::format("a UNIX socket: {}", std::strerror(errno)));
    sides_.socket = fd;
    loop_.watch(fd, EPOLLIN, *this);
    socklen_t length = 0;
    const sockaddr_un address = name_of(token_, length);
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), length) != 0) {
      return fail(
          fmt::format("the peer's UNIX socket: {}; expected both roles in one network "
                      "namespace of one host",
                      std::strerror(errno)));
    }
    send_card();
  }

  const std::string& error() const override { return error_; }
  std::unique_ptr<Connection> take() override { return std::move(connection_); }

  void on_ready(int fd, std::uint32_t) override {
    if (fd == listening_) {
      const int accepted = ::accept4(fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (accepted < 0) return;
      // The name of the socket is no secret on this host.
      ucred who{};
      socklen_t length = sizeof who;
      const bool ours = ::getsockopt(accepted, SOL_SOCKET, SO_PEERCRED, &who, &length) == 0 &&
                        who.uid == ::geteuid();
      if (!ours || sides_.socket >= 0) {
        ::close(accepted);
        return;
      }
      sides_.socket = accepted;
      loop_.watch(accepted, EPOLLIN, *this);
      return send_card();
    }
    receive_card();
  }

 private:
  void listen() {
    listening_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t length = 0;
    const sockaddr_un address = name_of(token_, length);
    if (listening_ < 0 ||
        ::bind(listening_, reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
        ::listen(listening_, 4) != 0) {
      const int error = errno;
      if (listening_ >= 0) ::close(listening_);
      listening_ = -1;
      throw std::system_error(error, std::generic_category(), "a UNIX socket");
    }
    loop_.watch(listening_, EPOLLIN, *this);
  }

  void send_card() {
    Card card;
    card.token = token_;
    card.pool_bytes = pool_.size();
    card.ring_bytes = sides_.own_rings.size();
    const std::array<int, kDescriptors> fds{pool_.fd(), sides_.own_rings.fd(), sides_.own_event};
    iovec part{&card, sizeof card};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof fds)> room{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = room.data();
    message.msg_controllen = room.size();
    cmsghdr* control = CMSG_FIRSTHDR(&message);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof fds);
    std::memcpy(CMSG_DATA(control), fds.data(), sizeof fds);
    if (::sendmsg(sides_.socket, &message, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof card)) {
      fail(fmt::format("passing shared memory: {}", std::strerror(errno)));
    }
  }

  void receive_card() {
    Card card;
    std::array<int, kDescriptors> fds{-1, -1, -1};
    iovec part{&card, sizeof card};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof fds)> room{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = room.data();
    message.msg_controllen = room.size();
    const ssize_t n = ::recvmsg(sides_.socket, &message, MSG_CMSG_CLOEXEC);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    const cmsghdr* control = n > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
    if (control != nullptr && control->cmsg_level == SOL_SOCKET &&
        control->cmsg_type == SCM_RIGHTS && control->cmsg_len == CMSG_LEN(sizeof fds)) {
      std::memcpy(fds.data(), CMSG_DATA(control), sizeof fds);
    }
    const auto refuse = [&](const std::string& why) {
      for (const int fd : fds) {
        if (fd >= 0) ::close(fd);
      }
      fail(why);
    };
    if (n != static_cast<ssize_t>(sizeof card) || fds[2] < 0 || card.token != token_) {
      return refuse("the peer passed no shared memory");
    }
    if (card.ring_bytes != sides_.own_rings.size()) {
      return refuse(fmt::format("rings of {} bytes here, {} at the peer", sides_.own_rings.size(),
                                card.ring_bytes));
    }
    if (!is_event(fds[2])) return refuse("the peer passed no event");
    for (const auto& [fd, bytes] :
         {std::pair{fds[0], card.pool_bytes}, std::pair{fds[1], card.ring_bytes}}) {
      if (const std::string problem = sealed_problem(fd, bytes); !problem.empty()) {
        return refuse("the peer passed " + problem);
      }
    }
    try {
      sides_.peer_event = std::exchange(fds[2], -1);
      sides_.peer_pool = Mapping(std::exchange(fds[0], -1), card.pool_bytes);
      sides_.peer_rings = Mapping(std::exchange(fds[1], -1), card.ring_bytes);
    } catch (const std::system_error& problem) {
      return refuse(problem.what());
    }
    loop_.unwatch(sides_.socket);
    if (listening_ >= 0) {
      loop_.unwatch(listening_);
      ::close(std::exchange(listening_, -1));
    }
    done_ = true;
    ShmSides sides = std::move(sides_);
    sides_ = ShmSides();
    connection_ =
        std::make_unique<ShmConnection>(loop_, owner_, memory_, options_, std::move(sides));
    loop_.schedule_at(loop_.now(), ready_);
  }

  void fail(std::string why) {
    if (std::exchange(done_, true)) return;
    error_ = std::move(why);
    loop_.schedule_at(loop_.now(), ready_);
  }

  WallLoop& loop_;
  Pool& pool_;
  ConnectionOwner& owner_;
  ConnectionMemory memory_;
  ConnectionOptions options_;
  Callback ready_;
  bool passive_;
  Token token_;
  int listening_ = -1;
  ShmSides sides_;
  bool done_ = false;
  std::string error_;
  std::unique_ptr<Connection> connection_;
};

}  // namespace

std::unique_ptr<PendingConnection> ShmBackend::prepare(ConnectionOwner& owner,
                                                       const ConnectionMemory& memory,
                                                       const ConnectionOptions& options,
                                                       bool passive, Callback ready) {
  ConnectionOptions bounded = options;
  bounded.queues = std::clamp(options.queues, 1U, kMostQueues);
  return std::make_unique<PendingShm>(loop_, pool_, owner, memory, bounded, passive, ready);
}

}  // namespace kvlane::live
