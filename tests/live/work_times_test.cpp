// Times of whole pieces of work, between and beyond what was measured.

#include "calibrate/live/compute/work_times.h"

#include <doctest/doctest.h>

#include <cmath>

#include "sim/des/virtual_loop.h"
#include "sim/gpu/sim_compute.h"
#include "sim/net/fluid_network.h"
#include "tests/unit/gpu_support.h"

namespace kvlane::live {
namespace {

using kvlane::test::round_gpu;
using kvlane::test::round_model;

Work select_of(std::int64_t tokens, std::int64_t batch = 1) {
  Work work;
  work.kind = WorkKind::select;
  work.layer = LayerId(2);
  work.batch = batch;
  work.context_tokens = tokens;
  work.selector_bytes = 50;
  return work;
}

TEST_CASE("work times: measured sizes as measured, between them on a line of logarithms") {
  WorkTimes times(round_model());
  times.add(select_of(99), 2);
  times.add(select_of(9999), 4);
  CHECK(*times.work_factor(select_of(99)) == 2);
  CHECK(*times.work_factor(select_of(9999)) == 4);
  // log(1000) lies halfway between log(100) and log(10000).
  CHECK(*times.work_factor(select_of(999)) == doctest::Approx(3));
  Work other_layer = select_of(99);
  other_layer.layer = LayerId(0);  // of the same shape
  CHECK(*times.work_factor(other_layer) == 2);
}

TEST_CASE("work times: no answer beyond them, nor for another class") {
  WorkTimes times(round_model());
  times.add(select_of(99), 2);
  CHECK(!times.work_factor(select_of(98)));
  CHECK(!times.work_factor(select_of(100)));
  CHECK(!times.work_factor(select_of(99, 2)));
  Work hashed = select_of(99);
  hashed.hashed = true;
  CHECK(!times.work_factor(hashed));
}

TEST_CASE("a cost model takes the measured time of a whole piece, and a list hears what is asked") {
  const Work work = select_of(99);
  const CostModel formula(round_gpu(), round_model(), 1, false);
  WorkTimes times(round_model());
  times.add(work, 3);
  const CostModel measured(round_gpu(), round_model(), 1, false, &times);
  CHECK(to_seconds(measured.duration(work)) ==
        doctest::Approx(3 * to_seconds(formula.duration(work))));
  // What policies plan with is what the roles of a live run would tell them, who have no table.
  CHECK(measured.expected(work) == formula.duration(work));
  VirtualLoop loop;
  FluidNetwork network(loop);
  SimCompute compute(loop, network, nullptr);
  const LinkId link = network.add_link("pcie", Bandwidth::gbyte_per_sec(1), true);
  const GpuId gpu = compute.add_gpu(measured, link, link, link);
  CHECK(compute.estimate(gpu, work) == formula.duration(work));
  const WorkList list(round_model());
  const CostModel asked(round_gpu(), round_model(), 1, false, &list);
  for (const std::int64_t tokens : {10, 20, 30, 40, 50}) {
    CHECK(asked.duration(select_of(tokens)) == formula.duration(select_of(tokens)));
  }
  const std::vector<Work> chosen = list.chosen();
  REQUIRE(chosen.size() == 3);
  CHECK(chosen[0].context_tokens == 10);
  CHECK(chosen[1].context_tokens == 30);
  CHECK(chosen[2].context_tokens == 50);
}

}  // namespace
}  // namespace kvlane::live
