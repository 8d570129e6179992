#pragma once
// What the decode side holds of one request: each (layer, block) is remote, in flight or local.
// A local block stays local. Every operation is O(1) and allocates nothing.

#include <cstdint>
#include <vector>

#include "sim/kv/kv_layout.h"

namespace kvlane {

enum class BlockState : std::uint8_t { remote, in_flight, local };

class KvMask {
 public:
  // Everything remote. `layout` outlives the mask.
  explicit KvMask(const KvLayout& layout);

  BlockState state(std::size_t layer, std::int64_t block) const { return state_[at(layer, block)]; }
  bool is_local(std::size_t layer, std::int64_t block) const {
    return state(layer, block) == BlockState::local;
  }
  // Remote to in flight; false (and no change) when it is in flight or local already.
  bool mark_in_flight(std::size_t layer, std::int64_t block);
  // A write that was cancelled or failed: in flight back to remote; false when it is not in flight.
  bool mark_lost(std::size_t layer, std::int64_t block);
  // Arrived. False when it was local already.
  bool mark_local(std::size_t layer, std::int64_t block);
  // `rows` (row, kv head) pairs of a block have been fetched and kept, none of them before; true
  // when that makes the block local. Rows of a local block are not counted.
  bool add_fetched_rows(std::size_t layer, std::int64_t block, std::int64_t rows);
  std::int64_t fetched_rows(std::size_t layer, std::int64_t block) const {
    return fetched_[at(layer, block)];
  }

  std::int64_t local_blocks(std::size_t layer) const { return layers_[layer].local; }
  std::int64_t in_flight_blocks(std::size_t layer) const { return layers_[layer].in_flight; }
  std::int64_t remote_blocks(std::size_t layer) const {
    return layers_[layer].count - layers_[layer].local - layers_[layer].in_flight;
  }
  std::int64_t local_blocks() const { return local_; }
  std::int64_t in_flight_blocks() const { return in_flight_; }
  std::int64_t remote_blocks() const { return layout_->total_blocks() - local_ - in_flight_; }
  bool all_local() const { return local_ == layout_->total_blocks(); }
  bool layer_local(std::size_t layer) const { return layers_[layer].local == layers_[layer].count; }

 private:
  struct Layer {
    std::size_t start = 0;  // of its first block in state_
    std::int64_t first_block = 0;
    std::int64_t count = 0;
    std::int64_t local = 0;
    std::int64_t in_flight = 0;
  };
  std::size_t at(std::size_t layer, std::int64_t block) const;
  void leave_flight(std::size_t layer, BlockState& state);

  const KvLayout* layout_;
  std::vector<BlockState> state_;
  std::vector<std::int32_t> fetched_;
  std::vector<Layer> layers_;
  std::int64_t local_ = 0;
  std::int64_t in_flight_ = 0;
};

}  // namespace kvlane
