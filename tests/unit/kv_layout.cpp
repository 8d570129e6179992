// Bytes and blocks of a request's KV. Expected values are worked out in the comments.

#include "sim/kv/kv_layout.h"

#include <doctest/doctest.h>

using namespace kvlane;

namespace {

LayerSpec attention_layer(std::int64_t kv_heads, std::int64_t width, std::int64_t window) {
  LayerSpec layer;
  layer.attention = window > 0 ? AttentionKind::windowed : AttentionKind::full;
  layer.query_heads = 2 * kv_heads;
  layer.kv_heads = kv_heads;
  layer.head_dim = layer.value_head_dim = layer.k_width = layer.v_width = width;
  layer.window = window;
  return layer;
}

// Two full layers, one with a window of 100 tokens, one recurrent with 5000 B, one latent of 576.
ModelSpec mixed_model() {
  ModelSpec model;
  model.layers = {attention_layer(4, 64, 0), attention_layer(4, 64, 0),
                  attention_layer(2, 64, 100)};
  LayerSpec linear;
  linear.attention = AttentionKind::linear;
  linear.state = Bytes(5000);
  model.layers.push_back(linear);
  LayerSpec latent;
  latent.attention = AttentionKind::latent;
  latent.kv_heads = 1;
  latent.k_width = 576;
  model.layers.push_back(latent);
  return model;
}

}  // namespace

TEST_CASE("kv_footprint: growing, windowed and constant parts") {
  const ModelSpec model = mixed_model();
  // Full: 2 layers x 4 heads x (64 + 64) x 2 B = 2048; latent 576 x 2 B = 1152; window: 2 x 128
  // x 2.
  const KvFootprint exact = kv_footprint(model, false);
  CHECK(exact.growing_per_token == 2 * 1024 + 1152);
  CHECK(exact.windowed_per_token == 512);
  CHECK(exact.constant == Bytes(5000));
  CHECK(exact.window == 100);
  const KvFootprint full = kv_footprint(model, true);
  CHECK(full.growing_per_token == 2 * 1024 + 1152 + 512);
  CHECK(full.windowed_per_token == 0);
  CHECK(full.window == 0);
  // Below, at and beyond the window.
  CHECK(kv_bytes(model, 0, false) == Bytes(5000));
  CHECK(kv_bytes(model, 60, false) == Bytes(60 * (3200 + 512) + 5000));
  CHECK(kv_bytes(model, 1000, false) == Bytes(1000 * 3200 + 100 * 512 + 5000));
  CHECK(kv_bytes(model, 1000, true) == Bytes(1000 * 3712 + 5000));
}

TEST_CASE("KvLayout: blocks cover every layer once, without gaps") {
  const ModelSpec model = mixed_model();
  for (const bool as_full : {false, true}) {
    for (const std::int64_t tokens : {1, 7, 99, 100, 101, 1000, 1023, 4096}) {
      for (const std::int64_t blocks : {1, 10, 64, 1024}) {
        CAPTURE(tokens);
        CAPTURE(blocks);
        const KvLayout layout(model, tokens, blocks, 1, as_full);
        CHECK(layout.total_bytes() == kv_bytes(model, tokens, as_full));
        std::int64_t offset = 0;
        std::int64_t count = 0;
        for (std::size_t l = 0; l < model.layers.size(); ++l) {
          const LayerLayout& layer = layout.layer(l);
          std::int64_t held = 0;
          for (std::int64_t m = layer.first_block; m < layer.first_block + layer.block_count; ++m) {
            REQUIRE(layout.block_offset(l, m) == offset);
            if (layer.attention != AttentionKind::linear) REQUIRE(layout.block_tokens(l, m) > 0);
            REQUIRE(layout.block_rows(l, m) == layout.block_tokens(l, m) * layer.kv_heads);
            offset += layout.block_bytes(l, m).count();
            held += layout.block_tokens(l, m);
            ++count;
          }
          CHECK(held == layer.tokens);
          CHECK(offset == layer.offset + layer.bytes.count());
        }
        CHECK(offset == layout.total_bytes().count());
        CHECK(count == layout.total_blocks());
      }
    }
  }
}

TEST_CASE("KvLayout: a block is ceil(tokens / M) tokens and the last one is short") {
  const KvLayout layout(mixed_model(), 10'000, 1024, 2, false);
  CHECK(layout.tokens_per_block() == 10);  // ceil(10000 / 1024) = ceil(9.77)
  CHECK(layout.layer(0).block_count == 1000);
  const KvLayout odd(mixed_model(), 10'001, 1024, 2, false);
  CHECK(odd.layer(0).block_count == 1001);
  CHECK(odd.block_tokens(0, 1000) == 1);
  CHECK(odd.block_tokens(0, 1001) == 0);
  CHECK(odd.block_bytes(0, 1000) == Bytes(4 * 128 * 2));
}

TEST_CASE("KvLayout: a window holds the last tokens, its first block can be short") {
  const KvLayout layout(mixed_model(), 1000, 64, 0,
                        false);  // blocks of ceil(1000 / 64) = 16 tokens
  const LayerLayout& window = layout.layer(2);
  CHECK(window.first_token == 900);
  CHECK(window.first_block == 56);          // token 900 lies in [896, 912)
  CHECK(layout.block_tokens(2, 56) == 12);  // 900 .. 911
  CHECK(layout.block_tokens(2, 55) == 0);
  CHECK(window.block_count == 63 - 56);    // ceil(1000 / 16) = 63 blocks in all
  CHECK(layout.block_tokens(2, 62) == 8);  // 992 .. 999
}

TEST_CASE("KvLayout: dense are the leading layers, windows and states") {
  const KvLayout layout(mixed_model(), 1000, 64, 1, false);
  const std::vector<bool> expected{true, false, true, true, false};
  Bytes dense{0};
  for (std::size_t l = 0; l < expected.size(); ++l) {
    CHECK(layout.layer(l).dense == expected[l]);
    if (expected[l]) dense += layout.layer(l).bytes;
  }
  CHECK(layout.dense_bytes() == dense);
  CHECK_FALSE(KvLayout(mixed_model(), 1000, 64, 1, true).layer(2).dense);
}

TEST_CASE("KvLayout: refuses what is no request") {
  CHECK_THROWS_AS(KvLayout(mixed_model(), 0, 64, 1, false), std::logic_error);
  CHECK_THROWS_AS(KvLayout(mixed_model(), 10, 0, 1, false), std::logic_error);
}
