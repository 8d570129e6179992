#pragma once
// Everything is sent and decoding waits for all of it: each layer as it is handed over, or all
// after prefill (`overlap: none`, as pull-based connectors do); with `early_prefix` the cached
// prefix of every layer goes first. HACK is this policy with its own payload.

#include "sim/policy/transfer_policy.h"

namespace kvlane {

class FullPolicy final : public TransferPolicy {
 public:
  explicit FullPolicy(const TransferPlan& plan);
  void on_event(TimePoint now, const PolicyEvent& event,
                std::vector<PolicyAction>& actions) override;

 private:
  void write(std::size_t layer, std::uint32_t first, std::uint32_t end,
             std::vector<PolicyAction>& actions) const;

  const TransferPlan& plan_;
  std::uint32_t prefix_blocks_ = 0;  // whole blocks of the cached prefix sent before their layer
  std::size_t handed_over_ = 0;
  bool prefill_finished_ = false;
  // Decode side.
  std::int64_t blocks_missing_ = 0;
  std::int64_t states_missing_ = 0;  // layers without blocks (recurrent states)
  std::int64_t metadata_missing_ = 0;
  bool done_heard_ = false;
  bool started_ = false;
};

}  // namespace kvlane
