#pragma once
// One port for everything: a socket that is accepted says in its first 32 bytes what it is, a
// session or a data stream of one, and goes to whoever waits for that. What says something else, or
// nothing for five seconds, is closed.

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "calibrate/live/loop/wall_loop.h"
#include "calibrate/live/socket/address.h"

namespace kvlane::live {

using Token = std::array<std::uint8_t, 16>;
Token random_token();

enum class HelloKind : std::uint8_t { session, stream };
struct Hello {
  HelloKind kind = HelloKind::session;
  std::uint8_t lane = 0;
  std::uint32_t queue = 0;
  Token token{};  // of the session that a stream belongs to
};
inline constexpr std::size_t kHelloBytes = 32;
std::array<std::byte, kHelloBytes> encode_hello(const Hello& hello);
bool decode_hello(const std::array<std::byte, kHelloBytes>& bytes, Hello& hello);

// Settings of every socket of ours: non-blocking, close-on-exec, no delay.
void prepare_socket(int fd);

class Listener final : public Pollable {
 public:
  // Takes the socket over.
  using Accept = std::function<void(int fd, const Hello& hello)>;

  // Listens at once. Throws std::system_error with the address in it.
  Listener(WallLoop& loop, const SocketAddress& address);
  ~Listener() override;
  SocketAddress address() const { return local_address(fd_); }

  void on_session(Accept accept) { session_ = std::move(accept); }
  void on_stream(const Token& token, Accept accept) { streams_[token] = std::move(accept); }
  void forget(const Token& token) { streams_.erase(token); }
  void on_ready(int fd, std::uint32_t events) override;
  std::size_t waiting() const { return fresh_.size(); }

 private:
  struct Fresh {
    Listener* listener = nullptr;
    int fd = -1;
    std::size_t got = 0;
    std::array<std::byte, kHelloBytes> bytes{};
    TimerId timer;
  };
  void accept_all();
  void drop(int fd);
  void rest();

  WallLoop& loop_;
  int fd_ = -1;
  Accept session_;
  std::map<Token, Accept> streams_;
  std::map<int, std::unique_ptr<Fresh>> fresh_;
  TimerId resting_;
};

}  // namespace kvlane::live
