#include "calibrate/live/socket/dial.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "calibrate/live/session/session.h"

namespace kvlane::live {
namespace {

constexpr auto kAgain = std::chrono::milliseconds(50);
constexpr auto kPatience = std::chrono::seconds(1);

// The socket, or -1 with errno.
int try_once(const SocketAddress& address, int wait_ms) {
  const int fd = ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  int error = 0;
  if (::connect(fd, address.raw(), address.length) != 0) {
    error = errno;
    if (error == EINPROGRESS) {
      pollfd ready{fd, POLLOUT, 0};
      socklen_t length = sizeof error;
      error = ETIMEDOUT;
      if (::poll(&ready, 1, wait_ms) == 1) {
        ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
      }
    }
  }
  if (error == 0) return fd;
  ::close(fd);
  errno = error;
  return -1;
}

}  // namespace

int dial(const SocketAddress& address, const Hello& hello, Duration limit, const Say& say) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const auto end = begin + std::chrono::duration_cast<Clock::duration>(limit);
  bool told = false;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    const int fd = try_once(address, static_cast<int>(std::max<std::int64_t>(1, left.count())));
    if (fd >= 0) {
      prepare_socket(fd);
      const auto bytes = encode_hello(hello);
      if (::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(bytes.size())) {
        return fd;
      }
      ::close(fd);
    }
    const int error = errno;
    if (Clock::now() + kAgain >= end) {
      throw PeerError(
          fmt::format("connecting to {}: {} (tried for {:.1f} s); expected a role that "
                      "listens there",
                      address.text(), std::strerror(error), to_seconds(limit)));
    }
    if (!told && Clock::now() - begin > kPatience) {
      told = true;
      say(fmt::format("waiting for {}: {} (for up to {:.0f} s)", address.text(),
                      std::strerror(error), to_seconds(limit)));
    }
    std::this_thread::sleep_for(kAgain);
  }
}

}  // namespace kvlane::live
