#pragma once
// Who may take part. Both sides name their protocol and prove that they know the secret
// (HMAC-SHA256 over both nonces, OpenSSL's), then compare what must be alike; the passive side
// refuses with every difference in words. Nothing of the peer is believed before the proof but its
// nonce.

#include <string>
#include <utility>
#include <vector>

#include "calibrate/live/session/session.h"
#include "calibrate/live/socket/address.h"

namespace kvlane::live {

inline constexpr std::uint32_t kProtocol = 1;

// By name, in the order in which differences are told.
using Config = std::vector<std::pair<std::string, std::string>>;

struct Identity {
  std::string secret;   // may be empty on loopback
  std::string version;  // of the program
};

// The side that has connected: sends `config` and throws PeerError with the peer's reason when it
// is refused.
void shake_hands_active(Session& session, const Identity& identity, const Config& config,
                        Duration limit);
// The side that listens. `own`: what it must be alike to; a key that is missing on one side counts
// as different. Names in `theirs_only` are the active side's to say and are given back.
Config shake_hands_passive(Session& session, const Identity& identity, const Config& own,
                           const std::vector<std::string>& theirs_only, Duration limit);

// OptionError without a secret on anything but loopback.
void require_secret(const SocketAddress& listen, const std::string& secret);

// For two roles of one program: 32 hex digits.
std::string random_secret();

// Differences in words, empty when there are none: `block_tokens: 16 here, 32 at the peer`.
std::string differences(const Config& own, const Config& theirs);

std::vector<std::byte> encode_config(const Config& config);
bool decode_config(std::span<const std::byte> bytes, Config& config);

}  // namespace kvlane::live
