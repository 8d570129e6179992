#pragma once
// CPU time of this process. Both sides run on one thread, and unlike wall time it does not count
// what other programs do to the machine.

#include <ctime>

namespace kvlane::bench {

inline double cpu_seconds() {
  return static_cast<double>(std::clock()) / static_cast<double>(CLOCKS_PER_SEC);
}

}  // namespace kvlane::bench
