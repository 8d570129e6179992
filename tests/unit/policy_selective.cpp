// Selective transfers: mandatory bytes, the budget, the background, start and switch.

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/unit/policy_support.h"

namespace kvlane {
namespace {

using namespace test;

const Actions kNothing{};
const Actions kStart{StartDecode{}};

BlockRef ref(int layer, int block) {
  return {static_cast<std::uint16_t>(layer), static_cast<std::uint16_t>(block)};
}

// Best first: (3,9) (2,0) (3,8) (2,1) ... so that the head of the order has both layers.
PolicyBench bench(PolicyKind kind = PolicyKind::smartgen) {
  PolicyBench b(kind);
  for (int i = 0; i < 10; ++i) {
    b.order.blocks.push_back(ref(3, 9 - i));
    b.order.blocks.push_back(ref(2, i));
  }
  return b;
}

// Blocks of the selecting layers that go with their layers, after a prefill of `us`.
std::size_t chosen(PolicyBench& b, std::int64_t us) {
  b.start(us);
  std::size_t count = 0;
  for (const std::uint32_t l : {0U, 1U, 2U, 3U}) {
    for (const PolicyAction& action : b.layer(l)) {
      if (const auto* w = std::get_if<WriteBlocks>(&action); w != nullptr && l >= 2) {
        for (const BlockRun& run : w->runs) count += run.count;
      }
    }
  }
  return count;
}

}  // namespace

TEST_CASE("smartgen: dense layers whole, then metadata and the chosen blocks of each layer") {
  PolicyBench b = bench();
  // K_r = 400 kB x 340/400 x 3/4 = 255 kB; 200 kB dense and 10 kB metadata leave 45 kB: 4 blocks.
  CHECK(b.start(340) == kNothing);
  CHECK(b.layer(0) == Actions{whole_layer(0)});
  CHECK(b.layer(1) == Actions{whole_layer(1)});
  CHECK(b.layer(2) == Actions{metadata(2), blocks(Lane::proactive, {{2, 0, 2}})});
  CHECK(b.layer(3) == Actions{metadata(3), blocks(Lane::proactive, {{3, 8, 2}})});
  CHECK(b.on(PrefillFinished{}) == Actions{AnnounceDone{false}});
  CHECK(b.on(WriteCompleted{Lane::proactive, Bytes(kBlock)}) == kNothing);
}

TEST_CASE("smartgen: K_r to the block, metadata inside or outside") {
  // left(T_p) = 0.75 T_p kB/us - 200 kB - 10 kB; T_p = 306 2/3 us for the first two blocks.
  struct Case {
    std::int64_t us;
    std::size_t inside, outside;
  };
  for (const Case& c : {Case{100, 0, 0},       // 75 kB: mandatory bytes alone exceed it
                        Case{280, 0, 1},       // exactly 210 kB: nothing left | 10 kB
                        Case{293, 0, 1},       // 219.75 kB
                        Case{294, 1, 2},       // 220.5 kB
                        Case{400, 9, 10},      // T_p = T_t: 300 kB
                        Case{533, 18, 19},     // 399.75 kB: 18 blocks, the metadata being the rest
                        Case{534, 20, 20}}) {  // everything hides: nothing is left out
    CAPTURE(c.us);
    PolicyBench in = bench();
    CHECK(chosen(in, c.us) == c.inside);
    PolicyBench out = bench();
    out.options.budget_counts = BudgetCounts::metadata_outside;
    CHECK(chosen(out, c.us) == c.outside);
  }
}

TEST_CASE("smartgen: a given budget is a share of all blocks, whatever prefill hides") {
  for (const auto& row : {std::pair{0.0, 0U}, std::pair{0.5, 0U}, std::pair{0.6, 3U},
                          std::pair{0.75, 9U}, std::pair{1.0, 20U}}) {
    const auto [budget, count] = row;
    CAPTURE(row.first);
    PolicyBench b = bench();
    b.options.budget = budget;
    CHECK(chosen(b, 1) == count);  // 400 kB x budget - 210 kB
  }
}

TEST_CASE("smartgen: quantised blocks cost their bytes on the wire") {
  PolicyBench b = bench();
  b.plan.wire_ratio = 0.5;
  // All KV takes 200 us; K_r = 200 kB x 170/200 x 3/4 = 127.5 kB, less 100 kB and 10 kB: 17.5 kB.
  CHECK(chosen(b, 170) == 3);
}

TEST_CASE("smartgen: over an infinite link everything goes") {
  PolicyBench b = bench();
  b.on(PrefillStarted{Duration(1'000'000), Bandwidth::unlimited()});
  CHECK(b.layer(2) == Actions{metadata(2), whole_layer(2)});
}

TEST_CASE("smartgen, order none: no proactive block, the background still has its order") {
  PolicyBench b = bench();
  b.options.order = PushOrder::none;
  CHECK(chosen(b, 1000) == 0);
  b.options.speculative_ratio = 0.05;  // 2 of 40 blocks
  b.make();
  CHECK(b.on(NetworkIdle{0}) ==
        Actions{blocks(Lane::speculative, {{3, 9, 1}}), blocks(Lane::speculative, {{2, 0, 1}})});
}

TEST_CASE("sequential: the order's first blocks, in either reading") {
  PolicyBench by_layer(PolicyKind::sequential);
  by_layer.options.order = PushOrder::sequential;
  OrderInputs inputs;
  inputs.layout = &by_layer.layout;
  by_layer.order = make_order(PushOrder::sequential, inputs);
  by_layer.options.budget = 0.75;  // 9 blocks: all of layer 2's first
  by_layer.start(1);
  CHECK(by_layer.layer(2) == Actions{metadata(2), blocks(Lane::proactive, {{2, 0, 9}})});
  CHECK(by_layer.layer(3) == Actions{metadata(3)});
  PolicyBench by_token(PolicyKind::sequential);
  by_token.order = make_order(PushOrder::sequential_tokens, inputs);
  by_token.options.budget = 0.75;
  by_token.start(1);
  CHECK(by_token.layer(2) == Actions{metadata(2), blocks(Lane::proactive, {{2, 0, 5}})});
  CHECK(by_token.layer(3) == Actions{metadata(3), blocks(Lane::proactive, {{3, 0, 4}})});
}

TEST_CASE("smartgen, early prefix: chosen and dense blocks of the prefix leave at the start") {
  PolicyBench b = bench();
  b.options.early_prefix = true;
  b.options.budget = 0.75;  // (3,9..5) and (2,0..3)
  b.plan.cached_tokens = 60;
  CHECK(b.start(1) ==
        Actions{blocks(Lane::proactive, {{0, 0, 6}}), blocks(Lane::proactive, {{1, 0, 6}}),
                blocks(Lane::proactive, {{2, 0, 4}}), blocks(Lane::proactive, {{3, 5, 1}})});
  CHECK(b.layer(0) == Actions{blocks(Lane::proactive, {{0, 6, 4}})});
  CHECK(b.layer(2) == Actions{metadata(2)});  // nothing twice
  CHECK(b.layer(3) == Actions{metadata(3), blocks(Lane::proactive, {{3, 6, 4}})});
}

TEST_CASE("speculative: a share of the blocks an iteration, in chunks, in the order") {
  PolicyBench b = bench();
  b.options.budget = 0.0;
  b.options.speculative_ratio = 0.10;  // 4 of 40
  b.options.speculative_chunk = 3;
  b.start(1);
  const Actions first{blocks(Lane::speculative, {{2, 0, 1}, {3, 8, 2}}),
                      blocks(Lane::speculative, {{2, 1, 1}})};
  CHECK(b.on(NetworkIdle{0}) == first);
  CHECK(b.on(NetworkIdle{0}) == kNothing);  // the next layer of the same iteration
  CHECK(b.on(NetworkIdle{1}) == Actions{blocks(Lane::speculative, {{2, 2, 1}, {3, 6, 2}}),
                                        blocks(Lane::speculative, {{2, 3, 1}})});
}

TEST_CASE("speculative: without a chunk size, an iteration's share is spread over the layers") {
  PolicyBench b = bench();
  b.options.budget = 0.0;
  b.options.speculative_ratio = 0.20;  // 8 of 40 blocks, 2 a layer
  b.start(1);
  const Actions actions = b.on(NetworkIdle{0});
  REQUIRE(actions.size() == 4);
  CHECK(actions[0] == PolicyAction(blocks(Lane::speculative, {{2, 0, 1}, {3, 9, 1}})));
}

TEST_CASE("speculative: bytes in flight are bounded; a completion lets the next go") {
  PolicyBench b = bench();
  b.options.budget = 0.0;
  b.options.speculative_ratio = 0.20;  // 8 blocks
  b.options.speculative_chunk = 2;
  b.options.speculative_in_flight = Bytes(30'000);  // a second chunk may start below it
  b.start(1);
  CHECK(b.on(NetworkIdle{0}).size() == 2);
  CHECK(b.on(NetworkIdle{0}) == kNothing);
  CHECK(b.on(WriteCompleted{Lane::proactive, Bytes(20'000)}) == kNothing);  // not its own
  CHECK(b.on(WriteCompleted{Lane::speculative, Bytes(20'000)}).size() == 1);
  CHECK(b.on(WriteCompleted{Lane::speculative, Bytes(20'000)}).size() == 1);
  CHECK(b.on(WriteCompleted{Lane::speculative, Bytes(20'000)}) ==
        kNothing);  // the share is used up
}

TEST_CASE("speculative: ratio of what was left at the first iteration") {
  PolicyBench b = bench();
  b.options.budget = 0.75;  // 9 of 20 chosen: 11 left
  b.options.ratio_of = RatioOf::remaining_at_start;
  b.options.speculative_ratio = 0.2;  // 2.2: 2
  b.options.speculative_chunk = 10;
  b.start(1);
  for (const std::uint32_t l : {0U, 1U, 2U, 3U}) b.layer(l);
  CHECK(b.on(NetworkIdle{0}) == Actions{blocks(Lane::speculative, {{2, 4, 1}, {3, 4, 1}})});
  CHECK(b.on(NetworkIdle{1}) == Actions{blocks(Lane::speculative, {{2, 5, 1}, {3, 3, 1}})});
  b.options.ratio_of = RatioOf::all;
}

TEST_CASE("speculative: blocks that were pushed or fetched whole do not go again; off is off") {
  PolicyBench b = bench();
  b.options.budget = 0.6;  // 3 blocks: (3,9) (2,0) (3,8)
  b.options.speculative_ratio = 1;
  b.options.speculative_chunk = 40;
  b.start(1);
  for (const std::uint32_t l : {0U, 1U, 2U, 3U}) b.layer(l);
  const std::vector<BlockRun> fetched{{2, 3, 2}, {3, 0, 1}};
  CHECK(b.on(BlocksFetched{fetched}) == kNothing);
  CHECK(b.on(NetworkIdle{0}) ==
        Actions{blocks(Lane::speculative, {{2, 1, 2}, {2, 5, 5}, {3, 1, 7}})});
  CHECK(b.on(NetworkIdle{1}) == kNothing);
  PolicyBench off = bench();
  off.options.speculative = false;
  off.start(1);
  CHECK(off.on(NetworkIdle{0}) == kNothing);
}

TEST_CASE("smartgen: decoding starts with the mandatory bytes and the announcement") {
  PolicyBench b = bench();
  CHECK(b.on(PrefillDoneHeard{false}) == kNothing);
  CHECK(b.arrive({{0, 0, 10}}) == kNothing);
  CHECK(b.arrive({{2, 0, 3}}) == kNothing);  // chosen blocks are welcome, not waited for
  CHECK(b.arrive({{1, 0, 6}}) == kNothing);
  CHECK(b.arrive({}, LayerId(2)) == kNothing);
  CHECK(b.arrive({}, LayerId(3)) == kNothing);
  CHECK(b.arrive({{1, 6, 4}}) == kStart);
  CHECK(b.arrive({{3, 0, 10}}) == kNothing);
  // Told that the other side has switched to full: everything.
  PolicyBench all = bench();
  all.on(PrefillDoneHeard{true});
  all.arrive({{0, 0, 10}, {1, 0, 10}, {2, 0, 10}});
  all.arrive({}, LayerId(2));
  CHECK(all.arrive({}, LayerId(3)) == kNothing);
  CHECK(all.arrive({{3, 0, 9}}) == kNothing);
  CHECK(all.arrive({{3, 9, 1}}) == kStart);
}

TEST_CASE("auto-switch: full where waiting for everything costs no more than the misses") {
  // T_p = 100 us. Full: 410 kB, 310 us beyond prefill. Selective: 210 kB, 110 us, and the misses.
  // The order has no weights and nothing is chosen (75 kB of budget): all first-step rows miss.
  // They decide: 200 kB of rows, 200 us, make it even.
  for (const std::int64_t rows : {199'999, 200'000}) {
    PolicyBench b = bench();
    b.options.auto_switch = true;
    b.plan.first_step_rows = Bytes(rows);
    CHECK(b.start(100) == kNothing);
    const bool full = rows == 200'000;
    CHECK(b.layer(2) == (full ? Actions{metadata(2), whole_layer(2)} : Actions{metadata(2)}));
    CHECK(b.on(PrefillFinished{}) == Actions{AnnounceDone{full}});
  }
  // What is chosen hits by its weight: half of the selections are expected in the head of the order
  // (3 of 20 blocks with a budget of 60 %), so that twice the rows are even.
  for (const std::int64_t rows : {399'000, 401'000}) {
    PolicyBench b = bench();
    b.options.auto_switch = true;
    b.options.budget = 0.6;
    b.order.weight.assign(20, 0.5F / 17);
    b.order.weight[0] = 0.25F;
    b.order.weight[1] = b.order.weight[2] = 0.125F;
    b.plan.first_step_rows = Bytes(rows);
    b.start(100);
    CHECK(b.on(PrefillFinished{}) == Actions{AnnounceDone{rows > 400'000}});
  }
  // A fast link hides everything: full costs nothing more.
  PolicyBench fast = bench();
  fast.options.auto_switch = true;
  fast.start(1000);
  CHECK(fast.on(PrefillFinished{}) == Actions{AnnounceDone{true}});
  // Off by default.
  PolicyBench never = bench();
  never.plan.first_step_rows = Bytes(10'000'000);
  never.start(100);
  CHECK(never.on(PrefillFinished{}) == Actions{AnnounceDone{false}});
}

}  // namespace kvlane
