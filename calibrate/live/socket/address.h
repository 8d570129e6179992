#pragma once
// HOST:PORT, resolved; IPv4, [IPv6] and names.

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace kvlane::live {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&storage); }
  std::uint16_t port() const;
  bool is_loopback() const;
  std::string host() const;  // 10.0.0.1, ::1
  std::string text() const;  // 10.0.0.1:18515, [::1]:18515
};

// `option` names the words in the error: OptionError, one line.
SocketAddress parse_address(std::string_view text, std::string_view option);
// Of a socket.
SocketAddress local_address(int fd);
SocketAddress peer_address(int fd);

}  // namespace kvlane::live
