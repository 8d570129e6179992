#pragma once
// Stands between two ends of TCP streams and hands bytes on in pieces of random size, so that
// frames arrive torn anywhere; after `cut_after` bytes it hangs up all at once, in the middle of
// whatever that is.

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <random>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "calibrate/live/socket/address.h"

namespace kvlane::live::test {

class TornRelay {
 public:
  // `cut_after` below 0: never.
  TornRelay(const SocketAddress& target, std::uint64_t seed, std::size_t most_piece,
            std::int64_t cut_after)
      : target_(target), random_(seed), most_(most_piece), left_(cut_after) {
    listening_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const SocketAddress any = parse_address("127.0.0.1:0", "test");
    if (listening_ < 0 || ::bind(listening_, any.raw(), any.length) != 0 ||
        ::listen(listening_, 64) != 0 || ::pipe2(stop_.data(), O_CLOEXEC) != 0) {
      throw std::system_error(errno, std::generic_category(), "a relay");
    }
    address_ = local_address(listening_);
    thread_ = std::thread([this] { run(); });
  }
  ~TornRelay() {
    ::close(stop_[1]);
    thread_.join();
    ::close(stop_[0]);
    ::close(listening_);
  }
  TornRelay(const TornRelay&) = delete;
  TornRelay& operator=(const TornRelay&) = delete;
  const SocketAddress& address() const { return address_; }
  std::uint64_t pieces() const { return pieces_; }
  bool cut() const { return cut_; }

 private:
  using Both = std::array<int, 2>;

  void run() {
    std::vector<Both> streams;
    std::vector<pollfd> ready;
    for (;;) {
      ready.assign({{stop_[0], POLLIN, 0}, {listening_, POLLIN, 0}});
      for (const Both& both : streams) {
        for (const int fd : both) ready.push_back({fd, POLLIN, 0});
      }
      if (::poll(ready.data(), ready.size(), -1) < 0) continue;
      if (ready[0].revents != 0) break;
      std::vector<Both> kept;
      for (std::size_t s = 0; s < streams.size(); ++s) {
        bool open = !cut_;
        for (std::size_t side = 0; side < 2 && open; ++side) {
          if (ready[2 + 2 * s + side].revents != 0) open = hand_on(streams[s], side);
        }
        if (open) {
          kept.push_back(streams[s]);
        } else {
          for (const int fd : streams[s]) ::close(fd);
        }
      }
      streams.swap(kept);
      if (ready[1].revents != 0) {
        const int in = ::accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC);
        const int out = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (cut_ || ::connect(out, target_.raw(), target_.length) != 0) {
          ::close(in);
          ::close(out);
        } else {
          streams.push_back({in, out});
        }
      }
    }
    for (const Both& both : streams) {
      for (const int fd : both) ::close(fd);
    }
  }

  // False: the stream is over.
  bool hand_on(const Both& both, std::size_t side) {
    bytes_.resize(1 + random_() % most_);
    ssize_t n = ::recv(both[side], bytes_.data(), bytes_.size(), 0);
    if (n <= 0) return false;
    ++pieces_;
    if (left_ >= 0) {
      n = std::min<ssize_t>(n, left_);
      left_ -= n;
    }
    const bool sent =
        ::send(both[1 - side], bytes_.data(), static_cast<std::size_t>(n), MSG_NOSIGNAL) == n;
    if (left_ == 0) cut_ = true;
    return sent && !cut_;
  }

  SocketAddress target_, address_;
  std::mt19937_64 random_;
  std::size_t most_;
  std::int64_t left_;
  std::vector<char> bytes_;
  std::array<int, 2> stop_{-1, -1};
  int listening_ = -1;
  std::atomic<std::uint64_t> pieces_{0};
  std::atomic<bool> cut_{false};
  std::thread thread_;
};

}  // namespace kvlane::live::test
