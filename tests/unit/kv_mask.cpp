// The mask only moves forward, and its counts are those of a plain recount.

#include "sim/kv/kv_mask.h"

#include <doctest/doctest.h>

#include "sim/base/rng.h"

using namespace kvlane;

namespace {

ModelSpec model_of(std::size_t layers) {
  ModelSpec model;
  LayerSpec layer;
  layer.query_heads = layer.kv_heads = 2;
  layer.head_dim = layer.value_head_dim = layer.k_width = layer.v_width = 8;
  model.layers.assign(layers, layer);
  model.layers.back().attention = AttentionKind::windowed;
  model.layers.back().window = 30;
  return model;
}

}  // namespace

TEST_CASE("KvMask: remote, in flight, local, and never back from local") {
  const KvLayout layout(model_of(2), 100, 10, 0, false);
  KvMask mask(layout);
  CHECK(mask.state(0, 3) == BlockState::remote);
  CHECK(mask.mark_in_flight(0, 3));
  CHECK_FALSE(mask.mark_in_flight(0, 3));
  CHECK(mask.mark_lost(0, 3));
  CHECK_FALSE(mask.mark_lost(0, 3));
  CHECK(mask.mark_local(0, 3));
  CHECK_FALSE(mask.mark_local(0, 3));
  CHECK_FALSE(mask.mark_in_flight(0, 3));
  CHECK_FALSE(mask.mark_lost(0, 3));
  CHECK(mask.is_local(0, 3));
}

TEST_CASE("KvMask: a block turns local when the last of its rows was fetched") {
  const KvLayout layout(model_of(1), 25, 3, 0, true);  // blocks of 9, 9 and 7 tokens, 2 heads
  KvMask mask(layout);
  CHECK_FALSE(mask.add_fetched_rows(0, 0, 17));
  CHECK(mask.state(0, 0) == BlockState::remote);
  CHECK(mask.fetched_rows(0, 0) == 17);
  CHECK(mask.add_fetched_rows(0, 0, 1));
  CHECK(mask.is_local(0, 0));
  CHECK_FALSE(mask.add_fetched_rows(0, 0, 5));  // late rows of a local block change nothing
  CHECK(mask.fetched_rows(0, 0) == 18);
  CHECK(mask.add_fetched_rows(0, 2, 14));  // the short one: 7 tokens
  CHECK_THROWS_AS(mask.add_fetched_rows(0, 1, 19), std::logic_error);
}

TEST_CASE("KvMask: fetched rows make a block in flight local too") {
  const KvLayout layout(model_of(1), 25, 3, 0, true);
  KvMask mask(layout);
  mask.mark_in_flight(0, 0);
  CHECK(mask.in_flight_blocks() == 1);
  CHECK(mask.add_fetched_rows(0, 0, 18));
  CHECK(mask.in_flight_blocks() == 0);
  CHECK_FALSE(mask.mark_local(0, 0));  // the write arrives later
}

TEST_CASE("KvMask: refuses blocks that a windowed layer does not hold") {
  const KvLayout layout(model_of(2), 100, 10, 0, false);
  KvMask mask(layout);
  CHECK(mask.mark_local(1, 7));  // tokens 70 .. 99 are held
  CHECK_THROWS_AS(mask.mark_local(1, 6), std::logic_error);
  CHECK_THROWS_AS(mask.mark_local(0, 10), std::logic_error);
}

TEST_CASE("KvMask: counts equal a recount after any walk") {
  const KvLayout layout(model_of(3), 100, 16, 0, false);
  KvMask mask(layout);
  Rng rng(7, "mask walk");
  for (int step = 0; step < 4000; ++step) {
    const auto l = static_cast<std::size_t>(rng.below(3));
    const LayerLayout& layer = layout.layer(l);
    const auto m =
        layer.first_block +
        static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(layer.block_count)));
    const BlockState before = mask.state(l, m);
    switch (rng.below(4)) {
      case 0:
        mask.mark_in_flight(l, m);
        break;
      case 1:
        mask.mark_lost(l, m);
        break;
      case 2:
        if (rng.below(8) == 0) mask.mark_local(l, m);
        break;
      default:
        if (mask.fetched_rows(l, m) < layout.block_rows(l, m)) mask.add_fetched_rows(l, m, 1);
        break;
    }
    if (before == BlockState::local) REQUIRE(mask.state(l, m) == BlockState::local);
  }
  std::int64_t local = 0;
  std::int64_t flying = 0;
  for (std::size_t l = 0; l < 3; ++l) {
    const LayerLayout& layer = layout.layer(l);
    std::int64_t layer_local = 0;
    for (std::int64_t m = layer.first_block; m < layer.first_block + layer.block_count; ++m) {
      layer_local += mask.is_local(l, m) ? 1 : 0;
      flying += mask.state(l, m) == BlockState::in_flight ? 1 : 0;
    }
    CHECK(mask.local_blocks(l) == layer_local);
    CHECK(mask.layer_local(l) == (layer_local == layer.block_count));
    local += layer_local;
  }
  CHECK(mask.local_blocks() == local);
  CHECK(mask.in_flight_blocks() == flying);
  CHECK(mask.remote_blocks() == layout.total_blocks() - local - flying);
  CHECK(mask.all_local() == (local == layout.total_blocks()));
  CHECK(local > 0);
}
