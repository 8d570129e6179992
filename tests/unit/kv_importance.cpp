// Orders by importance, and what fits into a budget.

#include <doctest/doctest.h>

#include <limits>

#include "sim/kv/importance.h"

using namespace kvlane;

namespace {

ModelSpec model_of(std::size_t layers) {
  ModelSpec model;
  LayerSpec layer;
  layer.query_heads = layer.kv_heads = 1;
  layer.head_dim = layer.value_head_dim = layer.k_width = layer.v_width = 1;
  model.layers.assign(layers, layer);
  return model;
}

}  // namespace

TEST_CASE("order_descending: equal weights keep the order, nearly equal ones are equal") {
  const std::vector<float> weight{0.5F, 0.9F, 0.5F, std::numeric_limits<float>::quiet_NaN(), 0.1F};
  CHECK(order_descending(std::span<const float>(weight)) ==
        std::vector<std::uint32_t>{1, 0, 2, 4, 3});
  const std::vector<float> noise{0.5F, 0.50000003F};  // one step of float apart
  CHECK(order_descending(std::span<const float>(noise)) == std::vector<std::uint32_t>{0, 1});
  const std::vector<std::uint32_t> counts{3, 7, 7, 0};
  CHECK(order_descending(std::span<const std::uint32_t>(counts)) ==
        std::vector<std::uint32_t>{1, 2, 0, 3});
}

TEST_CASE("rank_blocks: over all layers, dense ones left out, unknown ones last") {
  const KvLayout layout(model_of(4), 3, 3, 1, false);  // layer 0 is dense
  ImportanceProfile profile;
  profile.blocks = 3;
  profile.weight = {{9, 9, 9}, {0.1F, 0.8F, 0.3F}, {}, {0.8F, 0.2F, 0.9F}};
  const auto ranked = rank_blocks(profile, layout);
  const std::vector<RankedBlock> expected{{3, 2}, {1, 1}, {3, 0}, {1, 2}, {3, 1},
                                          {1, 0}, {2, 0}, {2, 1}, {2, 2}};
  CHECK(ranked == expected);
}

TEST_CASE("rank_blocks: a profile of another length is read at the same relative position") {
  const KvLayout layout(model_of(1), 4, 4, 0, false);
  ImportanceProfile profile;
  profile.blocks = 2;
  profile.weight = {{0.1F, 0.9F}};  // the second half counts
  CHECK(rank_blocks(profile, layout) == std::vector<RankedBlock>{{0, 2}, {0, 3}, {0, 0}, {0, 1}});
}

TEST_CASE("take_blocks: the longest prefix that fits") {
  const KvLayout layout(model_of(2), 5, 3, 0, false);  // blocks of 2, 2, 1 tokens of 4 B
  const std::vector<RankedBlock> ranked{{1, 2}, {0, 0}, {1, 0}, {0, 2}};
  const auto taken = take_blocks(ranked, layout, Bytes(4 + 8 + 7));  // the third needs 8
  CHECK(taken[0] == std::vector<std::uint32_t>{0});
  CHECK(taken[1] == std::vector<std::uint32_t>{2});
  CHECK(take_blocks(ranked, layout, Bytes(4 + 8 + 8))[1] == std::vector<std::uint32_t>{2, 0});
  CHECK(take_blocks(ranked, layout, Bytes(3))[1].empty());
}
