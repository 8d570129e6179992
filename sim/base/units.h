#pragma once
// Quantities with their unit in the type. Time is integer picoseconds since the start of the run
// (one byte at 400 Gbit/s is exactly 20 ps; the range is +-106 days), sizes are integer bytes,
// rates integer bits per second. Gbps = 1e9 bit/s, GB = 1e9 bytes, KiB = 1024 bytes.

#include <chrono>
#include <cmath>
#include <compare>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

#include "sim/base/check.h"

namespace kvlane {

using Duration = std::chrono::duration<std::int64_t, std::pico>;

// Clock tag of a run: never read, only named. Both worlds count from the start of the run.
struct RunClock {
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<RunClock>;
  static constexpr bool is_steady = true;
};
using TimePoint = RunClock::time_point;

inline constexpr TimePoint kNever = TimePoint::max();

// A time beyond the clock's 106 days: not a broken invariant, but a run that nobody waits for.
class TimeRangeError : public std::runtime_error {
 public:
  explicit TimeRangeError(const std::string& what)
      : std::runtime_error(what + ": beyond the clock's range of 106 days") {}
};

constexpr double to_seconds(Duration d) { return static_cast<double>(d.count()) * 1e-12; }
constexpr double to_seconds(TimePoint t) { return to_seconds(t.time_since_epoch()); }

inline TimePoint later(TimePoint time, Duration delay) {
  if (delay > TimePoint::max() - time) throw TimeRangeError("a sum of delays");
  return time + delay;
}

// Rounds up, so that work of any size takes time; TimeRangeError outside the range.
inline Duration seconds_to_duration(double seconds) {
  const double ps = std::ceil(seconds * 1e12);
  if (!(ps >= -9.2e18 && ps <= 9.2e18)) throw TimeRangeError(fmt::format("{} s", seconds));
  return Duration(static_cast<std::int64_t>(ps));
}

class Bytes {
 public:
  constexpr Bytes() = default;
  constexpr explicit Bytes(std::int64_t count) : count_(count) {}
  constexpr std::int64_t count() const { return count_; }
  constexpr auto operator<=>(const Bytes&) const = default;
  constexpr Bytes& operator+=(Bytes o) { return count_ += o.count_, *this; }
  constexpr Bytes& operator-=(Bytes o) { return count_ -= o.count_, *this; }
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return Bytes(a.count_ + b.count_); }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return Bytes(a.count_ - b.count_); }
  friend constexpr Bytes operator*(Bytes a, std::int64_t n) { return Bytes(a.count_ * n); }
  friend constexpr Bytes operator*(std::int64_t n, Bytes a) { return a * n; }

 private:
  std::int64_t count_ = 0;
};

class Bandwidth {
 public:
  constexpr Bandwidth() = default;
  static constexpr Bandwidth bits_per_sec(std::int64_t v) { return Bandwidth(v); }
  static constexpr Bandwidth gbit_per_sec(double v) {
    return Bandwidth(static_cast<std::int64_t>(v * 1e9 + 0.5));
  }
  static constexpr Bandwidth gbyte_per_sec(double v) { return gbit_per_sec(v * 8); }
  static constexpr Bandwidth unlimited() {
    return Bandwidth(std::numeric_limits<std::int64_t>::max());
  }
  constexpr bool is_unlimited() const { return *this == unlimited(); }
  constexpr std::int64_t bits_per_sec() const { return bits_; }
  constexpr double bytes_per_sec() const { return static_cast<double>(bits_) / 8.0; }
  constexpr auto operator<=>(const Bandwidth&) const = default;
  // Scales a rate by a share; the result is rounded to a whole bit per second.
  constexpr Bandwidth scaled(double share) const {
    return is_unlimited()
               ? *this
               : Bandwidth(static_cast<std::int64_t>(static_cast<double>(bits_) * share + 0.5));
  }

 private:
  constexpr explicit Bandwidth(std::int64_t bits) : bits_(bits) {}
  std::int64_t bits_ = 0;
};

// Time that `size` needs at `rate`, rounded up to a picosecond; 128-bit inside, so that no size
// overflows (TimeRangeError when the time does). An unlimited rate takes no time; a zero rate is a
// broken invariant.
inline Duration serialization_delay(Bytes size, Bandwidth rate) {
  if (rate.is_unlimited()) return Duration::zero();
  KVLANE_CHECK(rate.bits_per_sec() > 0, "rate must be positive");
  __extension__ using int128 = __int128;
  const int128 bits = static_cast<int128>(size.count()) * 8;
  const int128 ps = (bits * 1'000'000'000'000 + rate.bits_per_sec() - 1) / rate.bits_per_sec();
  if (ps > std::numeric_limits<std::int64_t>::max()) {
    throw TimeRangeError(fmt::format("{} bytes at {} bit/s", size.count(), rate.bits_per_sec()));
  }
  return Duration(static_cast<std::int64_t>(ps));
}

namespace literals {
constexpr Duration operator""_s(unsigned long long v) {
  return Duration(static_cast<std::int64_t>(v) * 1'000'000'000'000);
}
constexpr Duration operator""_ms(unsigned long long v) {
  return Duration(static_cast<std::int64_t>(v) * 1'000'000'000);
}
constexpr Duration operator""_us(unsigned long long v) {
  return Duration(static_cast<std::int64_t>(v) * 1'000'000);
}
constexpr Duration operator""_ns(unsigned long long v) {
  return Duration(static_cast<std::int64_t>(v) * 1'000);
}
constexpr Duration operator""_ps(unsigned long long v) {
  return Duration(static_cast<std::int64_t>(v));
}
constexpr Bytes operator""_B(unsigned long long v) { return Bytes(static_cast<std::int64_t>(v)); }
constexpr Bytes operator""_KiB(unsigned long long v) {
  return Bytes(static_cast<std::int64_t>(v) << 10);
}
constexpr Bytes operator""_MiB(unsigned long long v) {
  return Bytes(static_cast<std::int64_t>(v) << 20);
}
constexpr Bytes operator""_GiB(unsigned long long v) {
  return Bytes(static_cast<std::int64_t>(v) << 30);
}
constexpr Bandwidth operator""_Gbps(unsigned long long v) {
  return Bandwidth::bits_per_sec(static_cast<std::int64_t>(v) * 1'000'000'000);
}
constexpr Bandwidth operator""_Gbps(long double v) {
  return Bandwidth::gbit_per_sec(static_cast<double>(v));
}
}  // namespace literals

}  // namespace kvlane
