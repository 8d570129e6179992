// Causes of the first and second token: they add up exactly, and each names what it should.

#include <doctest/doctest.h>

#include "sim/metrics/request_times.h"

namespace kvlane {
namespace {

using namespace literals;

TimePoint at(std::int64_t ms) { return TimePoint(Duration(ms * 1'000'000'000)); }

// Arrives at 10, waits 5, computes 20 (token 1 at 35), last layer in host memory at 38, its KV
// there at 50 of which 7 alone on the wire, joins at 53, second token at 63.
RequestTimes example() {
  RequestTimes t;
  t.arrived = at(10);
  t.prefill_started = at(15);
  t.prefill_finished = at(35);
  t.handed_over = at(38);
  t.data_ready = at(50);
  t.joined = at(53);
  t.wire_alone = 7_ms;
  t.tokens = {at(35), at(63), at(70), at(80)};
  return t;
}

}  // namespace

TEST_CASE("times: one definition each") {
  const RequestTimes t = example();
  CHECK(t.ttft() == 25_ms);
  CHECK(t.ttst() == 28_ms);
  CHECK(t.second_token() == 53_ms);
  CHECK(t.second_token() == t.ttft() + t.ttst());
  CHECK(t.jct() == 70_ms);
}

TEST_CASE("ttst causes: token 1 at prefill") {
  const TtstCauses c = ttst_causes(example(), true, 8_ms);
  CHECK(c.prefill_tail == 3_ms);   // 35 to 38
  CHECK(c.wire == 7_ms);           // of 38 to 50
  CHECK(c.queue == 5_ms);          // the rest of it
  CHECK(c.orchestration == 3_ms);  // 50 to 53
  CHECK(c.step == 8_ms);           // the ideal's
  CHECK(c.fetch == 2_ms);          // of 53 to 63
  CHECK(c.sum() == example().ttst());
}

TEST_CASE("ttst causes: a step faster than the ideal's is all step") {
  const TtstCauses c = ttst_causes(example(), true, 15_ms);
  CHECK(c.step == 10_ms);
  CHECK(c.fetch == 0_ms);
  CHECK(c.sum() == example().ttst());
}

TEST_CASE("ttst causes: what the wire needs alone is never more than there was") {
  RequestTimes t = example();
  t.wire_alone = 40_ms;
  const TtstCauses c = ttst_causes(t, true, 8_ms);
  CHECK(c.wire == 12_ms);
  CHECK(c.queue == 0_ms);
  CHECK(c.sum() == t.ttst());
}

TEST_CASE("ttst causes: all there before token 1") {
  RequestTimes t = example();
  t.handed_over = at(30);
  t.data_ready = at(33);
  const TtstCauses c = ttst_causes(t, true, 8_ms);
  CHECK(c.prefill_tail == 0_ms);
  CHECK(c.wire == 0_ms);
  CHECK(c.queue == 0_ms);
  CHECK(c.orchestration == 18_ms);  // 35 to 53
  CHECK(c.sum() == t.ttst());
}

TEST_CASE("ttft causes: prefill emits token 1") {
  const TtftCauses c = ttft_causes(example(), true);
  CHECK(c.queue == 5_ms);
  CHECK(c.prefill == 20_ms);
  CHECK(c.wire + c.orchestration + c.step == 0_ms);
  CHECK(c.sum() == example().ttft());
}

TEST_CASE("decode emits token 1: the transfer is among the causes of ttft, none of ttst's") {
  for (const std::int64_t first : {53, 61}) {  // seeded: at joining; recomputed: after a step
    RequestTimes t = example();
    t.tokens[0] = at(first);
    const TtftCauses c = ttft_causes(t, false);
    CHECK(c.prefill == 23_ms);  // with the tail of the offload
    CHECK(c.wire == 7_ms);
    CHECK(c.queue == 5_ms + 5_ms);
    CHECK(c.orchestration == 3_ms);
    CHECK(c.step == Duration((first - 53) * 1'000'000'000));
    CHECK(c.sum() == t.ttft());
    const TtstCauses second = ttst_causes(t, false, 1_ms);
    CHECK(second.prefill_tail + second.wire + second.queue + second.orchestration == 0_ms);
    CHECK(second.step == 1_ms);
    CHECK(second.sum() == t.ttst());
  }
}

}  // namespace kvlane
