#include "sim/net/flow_time.h"

#include <cmath>
#include <limits>

namespace kvlane {

Duration time_for(double bits, double rate) {
  if (!(bits > 0) || rate == std::numeric_limits<double>::infinity()) return Duration::zero();
  if (!(rate > 0)) return Duration::max();
  const double ps = bits * 1e12 / rate;
  if (!(ps < 9.2e18)) return Duration::max();
  auto count = static_cast<std::int64_t>(ps);  // rounded down
  const double part = ps - static_cast<double>(count);
  const double noise = ps * 0x1.0p-51 + 0x1.0p-10;
  if (part > noise) ++count;
  if (part > noise && part < 1 - noise) return Duration(count);
  // Too close to call in floating point: whole numbers decide it exactly.
  if (bits < 0x1.0p53 && rate < 0x1.0p53 && bits == std::floor(bits) && rate == std::floor(rate)) {
    __extension__ using int128 = __int128;
    const int128 need = static_cast<int128>(static_cast<std::int64_t>(bits)) * 1'000'000'000'000;
    const auto whole = static_cast<std::int64_t>(rate);
    while (static_cast<int128>(count) * whole < need) ++count;
    while (count > 0 && static_cast<int128>(count - 1) * whole >= need) --count;
  }
  return Duration(count);
}

}  // namespace kvlane
