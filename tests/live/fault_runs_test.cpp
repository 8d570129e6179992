// Runs under faults over the wires of any machine; over RDMA: verbs_test.cpp.

#include "tests/live/fault_runs.h"

#include "tests/live/torn_relay.h"

namespace kvlane::live::test {
namespace {

constexpr Duration kTimeout = std::chrono::milliseconds(150);

void check(const Outcome& outcome) {
  MESSAGE(outcome.good, " runs to the end, ", outcome.failed, " with an error");
  CHECK(outcome.good > 0);
  CHECK(outcome.failed > 0);
}

TEST_CASE("faults: random runs over tcp") {
  check(fault_runs(tcp_wire, 1, fault_runs_wanted(500), kTimeout));
}

TEST_CASE("faults: random runs over shm") {
  check(fault_runs(shm_wire, 10'001, fault_runs_wanted(500), kTimeout));
}

// Streams through a relay: whole ones arrive in pieces of a few bytes, others end in the middle of
// a frame.
TEST_CASE("faults: torn streams") {
  const Scenario s = fault_scenario();
  LiveOptions options;
  options.verify = true;
  options.timeout = std::chrono::seconds(5);  // whoever is cut off hears of it at once
  Outcome outcome;
  const std::size_t before = open_descriptors();
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    options.checksum = random() % 2 == 0;
    const bool cuts = random() % 2 == 0;
    const auto cut_after = cuts ? static_cast<std::int64_t>(random() % 2'000'000) : -1;
    const std::size_t most_piece = 1 + random() % 3000;
    {
      std::unique_ptr<TornRelay> relay;
      const MakeWire wire = [&](const MeshEnd& end) -> std::unique_ptr<Backend> {
        if (end.side == 0) return tcp_wire(end);
        relay = std::make_unique<TornRelay>(end.listener->address(), seed, most_piece, cut_after);
        return std::make_unique<TcpBackend>(end.loop, nullptr, relay->address());
      };
      WallLoop loop;
      try {
        RoleMesh mesh(loop, s, options, wire);
        const auto records = mesh.run(static_cast<std::uint32_t>(random() % s.strategies.size()));
        CHECK(mesh.decode().verified_bytes > 0);
        CHECK(relay->pieces() > 100);
        ++outcome.good;
      } catch (const std::exception& error) {
        INFO(error.what());
        CHECK(cuts);
        CHECK(std::string(error.what()).size() > 10);
        ++outcome.failed;
      }
    }
    CHECK(open_descriptors() == before);
  }
  check(outcome);
}

}  // namespace
}  // namespace kvlane::live::test
