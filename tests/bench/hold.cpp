#include "tests/bench/hold.h"

#include <fmt/format.h>

#include "sim/base/rng.h"

namespace kvlane::bench {

HoldInput make_hold_input(std::size_t pending, std::uint64_t events) {
  HoldInput input;
  input.pending = pending;
  input.events = events;
  Rng rng(1, fmt::format("hold/{}", pending));
  // Uniform in [1, 2^20]: with 100,000 pending, equal times are common enough to be tested.
  input.delays.resize(1U << 16U);
  for (std::uint32_t& delay : input.delays) {
    delay = static_cast<std::uint32_t>(1 + rng.below(1U << 20U));
  }
  return input;
}

}  // namespace kvlane::bench
