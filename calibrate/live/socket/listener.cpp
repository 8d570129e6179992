#include "calibrate/live/socket/listener.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

namespace kvlane::live {
namespace {

constexpr std::array<char, 8> kMagic = {'k', 'v', 'l', 'a', 'n', 'e', 'L', '1'};
constexpr std::size_t kMostFresh = 256;
constexpr Duration kRest = std::chrono::milliseconds(100);
constexpr Duration kHelloWithin = std::chrono::seconds(5);

}  // namespace

Token random_token() {
  Token token{};
  if (::getrandom(token.data(), token.size(), 0) != static_cast<ssize_t>(token.size())) {
    throw std::system_error(errno, std::generic_category(), "getrandom");
  }
  return token;
}

std::array<std::byte, kHelloBytes> encode_hello(const Hello& hello) {
  std::array<std::byte, kHelloBytes> bytes{};
  std::memcpy(bytes.data(), kMagic.data(), 8);
  bytes[8] = static_cast<std::byte>(hello.kind);
  bytes[9] = static_cast<std::byte>(hello.lane);
  std::memcpy(bytes.data() + 12, &hello.queue, 4);
  std::memcpy(bytes.data() + 16, hello.token.data(), hello.token.size());
  return bytes;
}

bool decode_hello(const std::array<std::byte, kHelloBytes>& bytes, Hello& hello) {
  if (std::memcmp(bytes.data(), kMagic.data(), 8) != 0) return false;
  const auto kind = static_cast<std::uint8_t>(bytes[8]);
  if (kind > static_cast<std::uint8_t>(HelloKind::stream)) return false;
  hello.kind = static_cast<HelloKind>(kind);
  hello.lane = static_cast<std::uint8_t>(bytes[9]);
  std::memcpy(&hello.queue, bytes.data() + 12, 4);
  std::memcpy(hello.token.data(), bytes.data() + 16, hello.token.size());
  return true;
}

void prepare_socket(int fd) {
  ::fcntl(fd, F_SETFL, O_NONBLOCK);
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

Listener::Listener(WallLoop& loop, const SocketAddress& address) : loop_(loop) {
  fd_ = ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int on = 1;
  if (fd_ < 0 || ::setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      ::bind(fd_, address.raw(), address.length) != 0 || ::listen(fd_, 128) != 0) {
    const int error = errno;
    if (fd_ >= 0) ::close(fd_);
    throw std::system_error(error, std::generic_category(), "listening on " + address.text());
  }
  loop_.watch(fd_, EPOLLIN, *this);
}

Listener::~Listener() {
  while (!fresh_.empty()) drop(fresh_.begin()->first);
  if (resting_) {
    loop_.cancel(resting_);
  } else {
    loop_.unwatch(fd_);
  }
  ::close(fd_);
}

void Listener::accept_all() {
  for (;;) {
    const int fd = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
      if (errno == EMFILE || errno == ENFILE) rest();
      return;
    }
    if (fresh_.size() >= kMostFresh) drop(fresh_.begin()->first);
    prepare_socket(fd);
    auto fresh = std::make_unique<Fresh>();
    fresh->listener = this;
    fresh->fd = fd;
    fresh->timer = loop_.schedule_after(kHelloWithin, {[](void* context, std::uint64_t) {
                                                         auto& f = *static_cast<Fresh*>(context);
                                                         f.timer = {};
                                                         f.listener->drop(f.fd);
                                                       },
                                                       fresh.get(), 0});
    loop_.watch(fd, EPOLLIN, *this);
    fresh_.emplace(fd, std::move(fresh));
  }
}

// No descriptor is left for who knocks: of those that have said nothing yet one goes, and the rest
// waits until there may be some again.
void Listener::rest() {
  if (!fresh_.empty()) drop(fresh_.begin()->first);
  if (resting_) return;
  loop_.unwatch(fd_);
  resting_ = loop_.schedule_after(kRest, {[](void* self, std::uint64_t) {
                                            auto& listener = *static_cast<Listener*>(self);
                                            listener.resting_ = {};
                                            listener.loop_.watch(listener.fd_, EPOLLIN, listener);
                                          },
                                          this, 0});
}

void Listener::drop(int fd) {
  const auto found = fresh_.find(fd);
  if (found->second->timer) loop_.cancel(found->second->timer);
  loop_.unwatch(fd);
  ::close(fd);
  fresh_.erase(found);
}

void Listener::on_ready(int fd, std::uint32_t) {
  if (fd == fd_) return accept_all();
  Fresh& fresh = *fresh_.at(fd);
  const ssize_t n = ::recv(fd, fresh.bytes.data() + fresh.got, kHelloBytes - fresh.got, 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) return drop(fd);
  fresh.got += static_cast<std::size_t>(n);
  if (fresh.got < kHelloBytes) return;
  Hello hello;
  if (!decode_hello(fresh.bytes, hello)) return drop(fd);
  Accept* accept = nullptr;
  if (hello.kind == HelloKind::session) {
    if (session_) accept = &session_;
  } else if (const auto found = streams_.find(hello.token); found != streams_.end()) {
    accept = &found->second;
  }
  if (accept == nullptr) return drop(fd);
  loop_.cancel(fresh.timer);
  loop_.unwatch(fd);
  fresh_.erase(fd);
  const Accept call = *accept;  // it may end its own registration
  call(fd, hello);
}

}  // namespace kvlane::live
