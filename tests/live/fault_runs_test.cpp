// Runs under faults over the wires of any machine; over RDMA: verbs_test.cpp.

#include "tests/live/fault_runs.h"

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

}  // namespace
}  // namespace kvlane::live::test
