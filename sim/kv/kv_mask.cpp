#include "sim/kv/kv_mask.h"

#include "sim/base/check.h"

namespace kvlane {

KvMask::KvMask(const KvLayout& layout) : layout_(&layout) {
  std::size_t start = 0;
  for (std::int64_t l = 0; l < layout.layer_count(); ++l) {
    const LayerLayout& layer = layout.layer(static_cast<std::size_t>(l));
    layers_.push_back({start, layer.first_block, layer.block_count, 0, 0});
    start += static_cast<std::size_t>(layer.block_count);
  }
  state_.assign(start, BlockState::remote);
  fetched_.assign(start, 0);
}

std::size_t KvMask::at(std::size_t layer, std::int64_t block) const {
  const Layer& l = layers_[layer];
  const std::int64_t i = block - l.first_block;
  KVLANE_CHECK(i >= 0 && i < l.count, "layer {} holds no block {}", layer, block);
  return l.start + static_cast<std::size_t>(i);
}

bool KvMask::mark_in_flight(std::size_t layer, std::int64_t block) {
  BlockState& state = state_[at(layer, block)];
  if (state != BlockState::remote) return false;
  state = BlockState::in_flight;
  ++layers_[layer].in_flight;
  ++in_flight_;
  return true;
}

void KvMask::leave_flight(std::size_t layer, BlockState& state) {
  if (state == BlockState::in_flight) {
    --layers_[layer].in_flight;
    --in_flight_;
  }
  state = BlockState::remote;
}

bool KvMask::mark_lost(std::size_t layer, std::int64_t block) {
  BlockState& state = state_[at(layer, block)];
  if (state != BlockState::in_flight) return false;
  leave_flight(layer, state);
  return true;
}

bool KvMask::mark_local(std::size_t layer, std::int64_t block) {
  BlockState& state = state_[at(layer, block)];
  if (state == BlockState::local) return false;
  leave_flight(layer, state);
  state = BlockState::local;
  ++layers_[layer].local;
  ++local_;
  return true;
}

bool KvMask::add_fetched_rows(std::size_t layer, std::int64_t block, std::int64_t rows) {
  const std::size_t i = at(layer, block);
  if (state_[i] == BlockState::local) return false;
  const std::int64_t all = layout_->block_rows(layer, block);
  const std::int64_t fetched = fetched_[i] + rows;
  KVLANE_CHECK(rows >= 0 && fetched <= all, "{} rows fetched of the {} of layer {} block {}",
               fetched, all, layer, block);
  fetched_[i] = static_cast<std::int32_t>(fetched);
  return fetched == all && mark_local(layer, block);
}

}  // namespace kvlane
