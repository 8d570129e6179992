#pragma once
// Sends what decoding cannot start without (dense layers, windows, states, selection metadata),
// then the best blocks in the order of the strategy, as many as prefill hides:
//   K_r = L M (T_p / T_t) ((L - 1) / L), mandatory bytes counted inside     (docs/system.md 3)
// and, if asked, the rest in the background while decoding: a share of the blocks an iteration,
// posted when the network is idle, bounded in flight. `sequential` and `smartgen` differ in options
// only.

#include "sim/policy/full_policy.h"
#include "sim/policy/transfer_policy.h"

namespace kvlane {

class SelectivePolicy final : public TransferPolicy {
 public:
  explicit SelectivePolicy(const TransferPlan& plan);
  void on_event(TimePoint now, const PolicyEvent& event,
                std::vector<PolicyAction>& actions) override;

 private:
  enum class Block : std::uint8_t { waiting, chosen, sent };

  void choose(const PrefillStarted& started);
  bool full_pays(const PrefillStarted& started) const;
  void push_layer(std::size_t layer, std::uint32_t first, std::uint32_t end, bool whole_layer,
                  std::vector<PolicyAction>& actions);
  void push_background(std::vector<PolicyAction>& actions);
  Block& state(BlockRef ref) { return states_[ref.layer][ref.block]; }

  const TransferPlan& plan_;
  std::vector<std::vector<Block>> states_;  // [layer][block], selecting layers only
  std::uint32_t prefix_blocks_ = 0;
  std::size_t chosen_rank_ = 0;       // blocks of the order that were chosen
  std::unique_ptr<FullPolicy> full_;  // auto-switch has decided for a full transfer
  // Background.
  std::size_t next_rank_ = 0;
  std::int32_t iteration_ = -1;
  std::int64_t allowance_ = 0;  // blocks that may still be posted in this iteration
  std::int64_t per_iteration_ = 0;
  std::int64_t chunk_ = 1;
  Bytes in_flight_{0};
  // Decode side.
  std::int64_t mandatory_missing_ = 0;  // dense blocks, states and metadata pieces
  std::int64_t blocks_missing_ = 0;
  bool done_heard_ = false;
  bool wait_for_all_ = false;
  bool started_ = false;
};

}  // namespace kvlane
