#include "sim/policy/full_policy.h"

#include <algorithm>

namespace kvlane {

FullPolicy::FullPolicy(const TransferPlan& plan)
    : plan_(plan), blocks_missing_(plan.layout->total_blocks()) {
  const KvLayout& layout = *plan.layout;
  if (plan.options->early_prefix) {
    prefix_blocks_ = static_cast<std::uint32_t>(plan.cached_tokens / layout.tokens_per_block());
  }
  for (std::size_t l = 0; l < static_cast<std::size_t>(layout.layer_count()); ++l) {
    if (layout.layer(l).block_count == 0 && layout.layer(l).bytes.count() > 0) ++states_missing_;
    if (plan.metadata[l].count() > 0) ++metadata_missing_;
  }
}

void FullPolicy::write(std::size_t l, std::uint32_t first, std::uint32_t end,
                       std::vector<PolicyAction>& actions) const {
  const LayerLayout& layer = plan_.layout->layer(l);
  const auto layer_first = static_cast<std::uint32_t>(layer.first_block);
  const auto layer_end = static_cast<std::uint32_t>(layer.first_block + layer.block_count);
  first = std::max(first, layer_first);
  end = std::min(end, layer_end);
  const bool state = layer.block_count == 0 && layer.bytes.count() > 0;
  if (first >= end && !state) return;
  const BlockRun run{static_cast<std::uint32_t>(l), first, state ? 0 : end - first};
  actions.push_back(WriteBlocks{Lane::proactive, plan_.wire_bytes(run), {run}});
}

void FullPolicy::on_event(TimePoint, const PolicyEvent& event, std::vector<PolicyAction>& actions) {
  const KvLayout& layout = *plan_.layout;
  const auto layers = static_cast<std::size_t>(layout.layer_count());
  const bool per_layer = plan_.options->overlap == Overlap::layer;
  const auto hand_over = [&](std::size_t l) {
    if (plan_.metadata[l].count() > 0) {
      actions.push_back(WriteMetadata{LayerId(l), plan_.metadata[l]});
    }
    write(l, prefix_blocks_, ~0U, actions);
  };

  if (std::holds_alternative<PrefillStarted>(event)) {
    if (prefix_blocks_ > 0) {
      for (std::size_t l = 0; l < layers; ++l) {
        if (layout.layer(l).block_count > 0) write(l, 0, prefix_blocks_, actions);
      }
    }
  } else if (const auto* layer = std::get_if<LayerHandedOver>(&event)) {
    ++handed_over_;
    if (per_layer) hand_over(layer->layer.index());
    if (!per_layer && handed_over_ == layers && prefill_finished_) {
      for (std::size_t l = 0; l < layers; ++l) hand_over(l);
    }
  } else if (std::holds_alternative<PrefillFinished>(event)) {
    prefill_finished_ = true;
    actions.push_back(AnnounceDone{true});
    if (!per_layer && handed_over_ == layers) {
      for (std::size_t l = 0; l < layers; ++l) hand_over(l);
    }
  } else if (const auto* arrived = std::get_if<BlocksArrived>(&event)) {
    for (const BlockRun& run : arrived->runs) {
      if (run.count == 0) {
        --states_missing_;
      } else {
        blocks_missing_ -= run.count;
      }
    }
    if (arrived->metadata_of.is_valid()) --metadata_missing_;
  } else if (std::holds_alternative<PrefillDoneHeard>(event)) {
    done_heard_ = true;
  }
  if (done_heard_ && !started_ && blocks_missing_ == 0 && states_missing_ == 0 &&
      metadata_missing_ == 0) {
    started_ = true;
    actions.push_back(StartDecode{});
  }
}

}  // namespace kvlane
