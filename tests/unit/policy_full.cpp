// Full transfers: events in, actions out.

#include <doctest/doctest.h>

#include "tests/unit/policy_support.h"

namespace kvlane {
namespace {

using namespace test;

const Actions kNothing{};
const Actions kStart{StartDecode{}};

}  // namespace

TEST_CASE("full: each layer as it is handed over, its metadata first") {
  PolicyBench b(PolicyKind::full);
  CHECK(b.start(100) == kNothing);
  CHECK(b.layer(0) == Actions{whole_layer(0)});
  CHECK(b.layer(1) == Actions{whole_layer(1)});
  CHECK(b.layer(2) == Actions{metadata(2), whole_layer(2)});
  CHECK(b.on(WriteCompleted{Lane::proactive, Bytes(kLayer)}) == kNothing);
  CHECK(b.on(PrefillFinished{}) == Actions{AnnounceDone{true}});
  CHECK(b.layer(3) == Actions{metadata(3), whole_layer(3)});
}

TEST_CASE("full, overlap none: nothing before prefill and the last layer's hand-over are done") {
  const Actions all{whole_layer(0), whole_layer(1), metadata(2),
                    whole_layer(2), metadata(3),    whole_layer(3)};
  PolicyBench late(PolicyKind::full);
  late.options.overlap = Overlap::none;
  late.start(100);
  for (const std::uint32_t l : {0U, 1U, 2U}) CHECK(late.layer(l) == kNothing);
  CHECK(late.on(PrefillFinished{}) == Actions{AnnounceDone{true}});
  CHECK(late.layer(3) == all);
  // The other order of the last two events: announced first, then everything.
  PolicyBench early(PolicyKind::full);
  early.options.overlap = Overlap::none;
  for (const std::uint32_t l : {0U, 1U, 2U, 3U}) CHECK(early.layer(l) == kNothing);
  Actions expected{AnnounceDone{true}};
  expected.insert(expected.end(), all.begin(), all.end());
  CHECK(early.on(PrefillFinished{}) == expected);
}

TEST_CASE(
    "full, early prefix: whole cached blocks of every layer at once, the rest with the layer") {
  PolicyBench b(PolicyKind::full);
  b.options.early_prefix = true;
  b.plan.cached_tokens = 35;  // three whole blocks and a half
  Actions first;
  for (const std::uint32_t l : {0U, 1U, 2U, 3U})
    first.push_back(blocks(Lane::proactive, {{l, 0, 3}}));
  CHECK(b.start(100) == first);
  CHECK(b.layer(0) == Actions{blocks(Lane::proactive, {{0, 3, 7}})});
  CHECK(b.layer(2) == Actions{metadata(2), blocks(Lane::proactive, {{2, 3, 7}})});
}

TEST_CASE("full: decoding starts when all blocks, all metadata and the announcement are there") {
  PolicyBench b(PolicyKind::full);
  CHECK(b.arrive({{0, 0, 10}}) == kNothing);
  CHECK(b.arrive({{1, 0, 10}}) == kNothing);
  CHECK(b.arrive({}, LayerId(2)) == kNothing);
  CHECK(b.arrive({{2, 0, 10}}) == kNothing);
  CHECK(b.on(PrefillDoneHeard{true}) == kNothing);
  CHECK(b.arrive({{3, 0, 10}}) == kNothing);
  CHECK(b.arrive({}, LayerId(3)) == kStart);
  CHECK(b.on(PrefillDoneHeard{true}) == kNothing);  // once
  // The announcement last.
  PolicyBench c(PolicyKind::full);
  for (const std::uint32_t l : {0U, 1U, 2U, 3U}) c.arrive({{l, 0, 4}, {l, 4, 6}});
  c.arrive({}, LayerId(2));
  CHECK(c.arrive({}, LayerId(3)) == kNothing);
  CHECK(c.on(PrefillDoneHeard{true}) == kStart);
}

TEST_CASE("hack: the same, in its own bytes and without metadata") {
  PolicyBench b(PolicyKind::hack);
  b.plan.wire_ratio = 0.171;
  b.plan.metadata.assign(4, Bytes(0));
  CHECK(b.layer(2) == Actions{WriteBlocks{Lane::proactive, Bytes(17'100), {{2, 0, 10}}}});
  for (const std::uint32_t l : {0U, 1U, 2U}) b.arrive({{l, 0, 10}});
  b.on(PrefillDoneHeard{true});
  CHECK(b.arrive({{3, 0, 10}}) == kStart);
}

TEST_CASE("full: a recurrent state is one block, a window only what it holds") {
  ModelSpec model = four_layers();
  model.layers[2].attention = AttentionKind::linear;
  model.layers[2].kv_heads = 0;
  model.layers[2].state = Bytes(777);
  model.layers[3].attention = AttentionKind::windowed;
  model.layers[3].window = 25;  // tokens 75 to 99: half of block 7, and 8 and 9
  PolicyBench b(PolicyKind::full, model);
  CHECK(b.layer(2) == Actions{WriteBlocks{Lane::proactive, Bytes(777), {{2, 0, 1}}}});
  CHECK(b.layer(3) == Actions{WriteBlocks{Lane::proactive, Bytes(25'000), {{3, 7, 3}}}});
  b.on(PrefillDoneHeard{true});
  b.arrive({{0, 0, 10}, {1, 0, 10}, {3, 7, 3}});
  CHECK(b.arrive({{2, 0, 1}}) == kStart);
}

}  // namespace kvlane
