#include "calibrate/live/rdma/gid.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace kvlane::live {
namespace {

constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

bool is_mapped(const Gid& gid) { return std::equal(kMapped.begin(), kMapped.end(), gid.begin()); }

const char* type_text(GidType type) {
  switch (type) {
    case GidType::ib:
      return "IB";
    case GidType::roce_v1:
      return "RoCE v1";
    case GidType::roce_v2:
      return "RoCE v2";
  }
  return "?";
}

std::string listed(std::span<const GidEntry> entries) {
  std::string text;
  for (const GidEntry& entry : entries) {
    text += fmt::format("{}{}: {} {}", text.empty() ? "" : ", ", entry.index, gid_text(entry.gid),
                        type_text(entry.type));
  }
  return text.empty() ? "an empty GID table" : text;
}

}  // namespace

std::optional<Gid> gid_of_address(const std::string& address) {
  Gid gid{};
  if (::inet_pton(AF_INET6, address.c_str(), gid.data()) == 1) return gid;
  std::copy(kMapped.begin(), kMapped.end(), gid.begin());
  if (::inet_pton(AF_INET, address.c_str(), gid.data() + kMapped.size()) == 1) return gid;
  return std::nullopt;
}

std::string gid_text(const Gid& gid) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const bool mapped = is_mapped(gid);
  ::inet_ntop(mapped ? AF_INET : AF_INET6, gid.data() + (mapped ? kMapped.size() : 0), text.data(),
              text.size());
  return text.data();
}

bool is_link_local(const Gid& gid) { return gid[0] == 0xfe && (gid[1] & 0xc0U) == 0x80; }

std::optional<GidEntry> choose_gid(std::span<const GidEntry> entries, int index,
                                   const std::string& address, std::string& error) {
  const auto first = [&](auto&& fits) -> std::optional<GidEntry> {
    const auto found = std::find_if(entries.begin(), entries.end(), fits);
    return found == entries.end() ? std::nullopt : std::optional(*found);
  };
  if (index >= 0) {
    auto found = first([&](const GidEntry& e) { return e.index == index; });
    if (!found) error = fmt::format("no GID {}: {}", index, listed(entries));
    return found;
  }
  const bool roce = first([](const GidEntry& e) { return e.type != GidType::ib; }).has_value();
  std::optional<Gid> wanted;
  if (!address.empty()) {
    wanted = gid_of_address(address);
    if (!wanted) {
      error = fmt::format("`{}` is no address; expected one of IPv4 or IPv6", address);
      return std::nullopt;
    }
  }
  const GidType type = roce ? GidType::roce_v2 : GidType::ib;
  if (wanted && roce) {
    auto found = first([&](const GidEntry& e) { return e.type == type && e.gid == *wanted; });
    if (!found)
      error = fmt::format("no GID of {} for {}: {}", type_text(type), address, listed(entries));
    return found;
  }
  auto found =
      first([&](const GidEntry& e) { return e.type == type && (!roce || is_mapped(e.gid)); });
  if (!found) {
    found = first([&](const GidEntry& e) { return e.type == type && !is_link_local(e.gid); });
  }
  if (!found) {
    error = fmt::format("no usable GID: {}; expected one of {} that is not link-local",
                        listed(entries), type_text(type));
  }
  return found;
}

}  // namespace kvlane::live
