// Shared memory keeps what every wire must keep.

#include "tests/live/conformance.h"

namespace kvlane::live::test {

TEST_CASE("shm: conformance") {
  conform([](std::size_t pool, std::size_t region, ConnectionOptions options) {
    return std::make_unique<Pair>(pool, region, options, make_shm, std::chrono::seconds(2));
  });
}

}  // namespace kvlane::live::test
