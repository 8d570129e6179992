#pragma once
// The hold model: `pending` events; each one that runs schedules one more after a random delay. The
// delays are drawn beforehand and are the same for both sides; times are whole numbers of the
// loop's own unit (ps here, ns in ns-3). C++17, since ns-3's side includes it.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvlane::bench {

struct HoldInput {
  std::size_t pending = 0;
  std::uint64_t events = 0;
  std::vector<std::uint32_t> delays;  // a power of two many, used round and round
};

struct HoldResult {
  double seconds = 0;            // of CPU time
  std::uint64_t order_hash = 0;  // over (time, event) of the whole run: both sides must agree
};

inline std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  return (hash ^ value) * 0x100000001b3ULL;
}

HoldInput make_hold_input(std::size_t pending, std::uint64_t events);
HoldResult hold_here(const HoldInput& input);
// The whole simulator of ns-3 with its default scheduler; only where ns-3 is installed.
HoldResult hold_ns3(const HoldInput& input);

}  // namespace kvlane::bench
