#pragma once
// What a side offers whose streams are told apart by (lane, queue): how many queues, and the token
// by which the passive side knows them.

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "calibrate/live/socket/listener.h"
#include "calibrate/live/wire/bytes.h"

namespace kvlane::live {

inline std::vector<std::byte> encode_stream_offer(std::uint32_t queues, const Token& token) {
  std::vector<std::byte> bytes;
  Writer out(bytes);
  out.put(queues);
  out.put_bytes(std::as_bytes(std::span(token)));
  return bytes;
}

// Why the peer's offer does not fit; empty where `token` is the peer's now. `what`: "TCP streams".
inline std::string decode_stream_offer(std::span<const std::byte> bytes, const char* what,
                                       std::uint32_t queues, Token& token) {
  Reader in(bytes);
  const auto theirs = in.get<std::uint32_t>();
  const std::span<const std::byte> given = in.get_bytes(token.size());
  if (!in.done()) return fmt::format("an offer of {} that is none", what);
  if (theirs != queues) {
    return fmt::format("{} queues a lane here, {} at the peer", queues, theirs);
  }
  std::ranges::copy(given, std::as_writable_bytes(std::span(token)).begin());
  return {};
}

}  // namespace kvlane::live
