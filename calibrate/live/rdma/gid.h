#pragma once
// Which entry of a port's GID table stands for this end of a connection. Never "the first": entries
// of RoCE v1 and link-local addresses look alike and do not reach the peer.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace kvlane::live {

enum class GidType : std::uint8_t { ib, roce_v1, roce_v2 };

using Gid = std::array<std::uint8_t, 16>;

struct GidEntry {
  int index = 0;
  GidType type = GidType::ib;
  Gid gid{};
};

// "10.0.0.1", "fd00::1": as a GID holds it (IPv4 mapped). Nothing where it is no address.
std::optional<Gid> gid_of_address(const std::string& address);
std::string gid_text(const Gid& gid);
bool is_link_local(const Gid& gid);

// `index` >= 0: that one, whatever it is. Else the one of RoCE v2 with this address; without an
// address the first of RoCE v2 that is not link-local, IPv4 before IPv6; on InfiniBand (no entry of
// RoCE) the first. Nothing: `error` says what there is.
std::optional<GidEntry> choose_gid(std::span<const GidEntry> entries, int index,
                                   const std::string& address, std::string& error);

}  // namespace kvlane::live
