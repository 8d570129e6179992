// Push orders: best first, ties by layer and block.

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "tests/unit/policy_support.h"

namespace kvlane {
namespace {

using namespace test;

BlockRef ref(int layer, int block) {
  return {static_cast<std::uint16_t>(layer), static_cast<std::uint16_t>(block)};
}

// Layers 2 and 3 of ten blocks; blocks of ten tokens, so that one block holds the sinks.
struct Inputs {
  Inputs() : layout(four_layers(), 100, 10, 2, false) {
    profile.blocks = 10;
    profile.weight = {{}, {}, {5, 1, 2, 3, 0, 0, 0, 0, 4, 9}, {7, 1, 1, 1, 1, 1, 1, 1, 6, 8}};
    own = {{}, {}, {0, 0, 4, 0, 0, 0, 0, 0, 0, 4}, {0, 8, 0, 0, 0, 0, 0, 0, 0, 0}};
    totals = {{}, {}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, {10, 9, 8, 7, 6, 5, 4, 3, 2, 1}};
    inputs.layout = &layout;
    inputs.profile = &profile;
    for (std::size_t l = 0; l < 4; ++l) {
      inputs.own_queries.emplace_back(own[l]);
      inputs.totals.emplace_back(totals[l]);
    }
  }
  KvLayout layout;
  ImportanceProfile profile;
  std::vector<std::vector<std::uint32_t>> own, totals;
  OrderInputs inputs;
};

using Refs = std::vector<BlockRef>;
Refs head(const BlockOrder& order, std::size_t n) {
  return {order.blocks.begin(), order.blocks.begin() + static_cast<std::ptrdiff_t>(n)};
}

}  // namespace

TEST_CASE("order: each holds every block of the selecting layers once") {
  Inputs in;
  for (const PushOrder order :
       {PushOrder::profile, PushOrder::layer_totals_recency, PushOrder::recency,
        PushOrder::own_queries, PushOrder::own_queries_profile, PushOrder::sequential,
        PushOrder::sequential_tokens, PushOrder::random, PushOrder::none, PushOrder::oracle}) {
    CAPTURE(static_cast<int>(order));
    const BlockOrder made = make_order(order, in.inputs);
    std::set<std::pair<int, int>> seen;
    for (const BlockRef r : made.blocks) seen.insert({r.layer, r.block});
    CHECK(made.blocks.size() == 20);
    CHECK(seen.size() == 20);
    CHECK(seen.begin()->first == 2);
    double sum = 0;
    for (const float w : made.weight) sum += static_cast<double>(w);
    if (!made.weight.empty()) CHECK(sum == doctest::Approx(1));
  }
}

TEST_CASE("order: profile, oracle and none go by their table, ties by layer and block") {
  Inputs in;
  const BlockOrder profile = make_order(PushOrder::profile, in.inputs);
  CHECK(head(profile, 9) == Refs{ref(2, 9), ref(3, 9), ref(3, 0), ref(3, 8), ref(2, 0), ref(2, 8),
                                 ref(2, 3), ref(2, 2), ref(2, 1)});
  CHECK(head({{profile.blocks.begin() + 9, profile.blocks.end()}, {}}, 7) ==
        Refs{ref(3, 1), ref(3, 2), ref(3, 3), ref(3, 4), ref(3, 5), ref(3, 6), ref(3, 7)});
  CHECK(profile.weight[0] == doctest::Approx(9.0 / 52));
  CHECK(make_order(PushOrder::none, in.inputs).blocks == profile.blocks);
  CHECK(head(make_order(PushOrder::oracle, in.inputs), 4) ==
        Refs{ref(2, 9), ref(3, 0), ref(2, 8), ref(3, 1)});
  // All alike: by position.
  for (const std::size_t l : {2U, 3U})
    std::fill(in.profile.weight[l].begin(), in.profile.weight[l].end(), 1.0F);
  const BlockOrder flat = make_order(PushOrder::profile, in.inputs);
  CHECK(flat.blocks == make_order(PushOrder::sequential, in.inputs).blocks);
}

TEST_CASE("order: own queries, alone and with the profile, each scaled to a sum of one") {
  Inputs in;
  CHECK(head(make_order(PushOrder::own_queries, in.inputs), 4) ==
        Refs{ref(3, 1), ref(2, 2), ref(2, 9), ref(2, 0)});
  // Own sums to 16, the profile to 52: (3,1) 0.5 + 1/52; (2,9) 0.25 + 9/52; (2,2) 0.25 + 2/52.
  const BlockOrder both = make_order(PushOrder::own_queries_profile, in.inputs);
  CHECK(head(both, 4) == Refs{ref(3, 1), ref(2, 9), ref(2, 2), ref(3, 9)});
  CHECK(both.weight[0] == doctest::Approx((0.5 + 1.0 / 52) / 2));
}

TEST_CASE("order: by position") {
  Inputs in;
  CHECK(head(make_order(PushOrder::sequential, in.inputs), 11) ==
        Refs{ref(2, 0), ref(2, 1), ref(2, 2), ref(2, 3), ref(2, 4), ref(2, 5), ref(2, 6), ref(2, 7),
             ref(2, 8), ref(2, 9), ref(3, 0)});
  CHECK(head(make_order(PushOrder::sequential_tokens, in.inputs), 4) ==
        Refs{ref(2, 0), ref(3, 0), ref(2, 1), ref(3, 1)});
  // Sinks, then the newest.
  CHECK(head(make_order(PushOrder::recency, in.inputs), 6) ==
        Refs{ref(2, 0), ref(3, 0), ref(2, 9), ref(3, 9), ref(2, 8), ref(3, 8)});
}

TEST_CASE("order: the sinks of small blocks are the first four tokens") {
  const KvLayout layout(four_layers(), 20, 10, 2, false);  // blocks of two tokens
  OrderInputs inputs;
  inputs.layout = &layout;
  CHECK(head(make_order(PushOrder::recency, inputs), 6) ==
        Refs{ref(2, 0), ref(3, 0), ref(2, 1), ref(3, 1), ref(2, 9), ref(3, 9)});
}

TEST_CASE("order: layer totals with recency takes as many blocks of each layer as the profile") {
  Inputs in;
  const BlockOrder profile = make_order(PushOrder::profile, in.inputs);
  const BlockOrder totals = make_order(PushOrder::layer_totals_recency, in.inputs);
  int by_profile = 0;
  int by_totals = 0;
  for (std::size_t i = 0; i < 20; ++i) {
    by_profile += profile.blocks[i].layer == 2 ? 1 : 0;
    by_totals += totals.blocks[i].layer == 2 ? 1 : 0;
    CHECK(by_profile == by_totals);
  }
  // Layer 2's own best value 9 goes to its first by position, the sinks; layer 3's 8 likewise.
  CHECK(head(totals, 4) == Refs{ref(2, 0), ref(3, 0), ref(3, 9), ref(3, 8)});
}

TEST_CASE("order: random depends on seed and request, and on nothing else") {
  Inputs in;
  const Refs one = make_order(PushOrder::random, in.inputs).blocks;
  CHECK(make_order(PushOrder::random, in.inputs).blocks == one);
  in.inputs.request = 1;
  CHECK(make_order(PushOrder::random, in.inputs).blocks != one);
  in.inputs.request = 0;
  in.inputs.seed = 2;
  CHECK(make_order(PushOrder::random, in.inputs).blocks != one);
}

TEST_CASE("runs: adjacent blocks of a layer merge, others do not") {
  std::vector<BlockRun> runs;
  const std::vector<std::uint32_t> blocks{1, 2, 3, 7, 8};
  append_runs(2, blocks, runs);
  append_runs(3, std::vector<std::uint32_t>{9}, runs);
  CHECK(runs == std::vector<BlockRun>{{2, 1, 3}, {2, 7, 2}, {3, 9, 1}});
}

TEST_CASE("endpoint: what a strategy's answers are worth") {
  StrategyOptions o;
  CHECK(endpoint_of(o) == Endpoint::approximate);  // full, with selected rows
  o.policy = PolicyKind::full_dense;
  CHECK(endpoint_of(o) == Endpoint::exact);
  o.payload = Payload::int4;
  CHECK(endpoint_of(o) == Endpoint::compressed);
  o = {};
  o.policy = PolicyKind::hack;
  CHECK(endpoint_of(o) == Endpoint::compressed);
  o.hack_select = HackSelect::selected;
  CHECK(endpoint_of(o) == Endpoint::approximate);
}

}  // namespace kvlane
