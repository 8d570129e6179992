#include "sim/policy/selective_policy.h"

#include <algorithm>
#include <cmath>

#include "sim/base/check.h"
#include "sim/kv/budget.h"

namespace kvlane {

SelectivePolicy::SelectivePolicy(const TransferPlan& plan) : plan_(plan) {
  const KvLayout& layout = *plan.layout;
  const auto layers = static_cast<std::size_t>(layout.layer_count());
  states_.resize(layers);
  for (std::size_t l = 0; l < layers; ++l) {
    const LayerLayout& layer = layout.layer(l);
    if (plan.metadata[l].count() > 0) ++mandatory_missing_;
    if (layer.dense) {
      mandatory_missing_ += layer.block_count;
      if (layer.block_count == 0 && layer.bytes.count() > 0) ++mandatory_missing_;
    } else {
      states_[l].assign(static_cast<std::size_t>(layer.first_block + layer.block_count),
                        Block::waiting);
    }
  }
  blocks_missing_ = layout.total_blocks();
  if (plan.options->early_prefix) {
    prefix_blocks_ = static_cast<std::uint32_t>(plan.cached_tokens / layout.tokens_per_block());
  }
  const StrategyOptions& options = *plan.options;
  per_iteration_ = std::max<std::int64_t>(
      1, std::llround(options.speculative_ratio * static_cast<double>(layout.total_blocks())));
  const auto share = [&](std::int64_t blocks) {
    return std::max<std::int64_t>(1, blocks / layout.layer_count());
  };
  chunk_ = options.speculative_chunk > 0 ? options.speculative_chunk : share(per_iteration_);
}

void SelectivePolicy::choose(const PrefillStarted& started) {
  const KvLayout& layout = *plan_.layout;
  const StrategyOptions& options = *plan_.options;
  if (options.order == PushOrder::none) return;
  const Bytes all = plan_.wire_bytes(layout.total_bytes());
  const Bytes budget =
      options.budget
          ? Bytes(static_cast<std::int64_t>(*options.budget * static_cast<double>(all.count())))
          : proactive_bytes(layout.layer_count(), all, started.prefill,
                            serialization_delay(all, started.bandwidth));
  Bytes mandatory = plan_.wire_bytes(layout.dense_bytes());
  if (options.budget_counts == BudgetCounts::metadata_inside) {
    for (const Bytes bytes : plan_.metadata) mandatory += bytes;
  }
  // A budget of everything leaves nothing out, whatever the metadata take.
  double left =
      static_cast<double>((budget >= all ? all : split_budget(budget, mandatory).free).count());
  for (const BlockRef ref : plan_.order->blocks) {
    const double bytes =
        static_cast<double>(layout.block_bytes(ref.layer, ref.block).count()) * plan_.wire_ratio;
    if (bytes > left) break;
    left -= bytes;
    state(ref) = Block::chosen;
    ++chosen_rank_;
  }
}

// Auto-switch: what full makes the second token wait for (the bytes that prefill does not hide)
// against what selection does (mandatory bytes beyond prefill, and the first step's expected
// misses).
bool SelectivePolicy::full_pays(const PrefillStarted& started) const {
  const KvLayout& layout = *plan_.layout;
  const auto wait = [&](double bytes) {
    const double seconds = bytes / started.bandwidth.bytes_per_sec();
    return std::max(0.0, seconds - to_seconds(started.prefill));
  };
  double metadata = 0;
  for (const Bytes bytes : plan_.metadata) metadata += static_cast<double>(bytes.count());
  const double everything = static_cast<double>(plan_.wire_bytes(layout.total_bytes()).count());
  const double dense = static_cast<double>(plan_.wire_bytes(layout.dense_bytes()).count());
  double hit = 0;
  for (std::size_t rank = 0; rank < chosen_rank_ && rank < plan_.order->weight.size(); ++rank) {
    hit += static_cast<double>(plan_.order->weight[rank]);
  }
  if (plan_.order->weight.empty() && !plan_.order->blocks.empty()) {
    hit = static_cast<double>(chosen_rank_) / static_cast<double>(plan_.order->blocks.size());
  }
  const double misses = static_cast<double>(plan_.first_step_rows.count()) * (1 - hit) /
                        started.bandwidth.bytes_per_sec();
  return wait(everything + metadata) <= wait(dense + metadata) + misses;
}

void SelectivePolicy::push_layer(std::size_t l, std::uint32_t first, std::uint32_t end,
                                 bool whole_layer, std::vector<PolicyAction>& actions) {
  const LayerLayout& layer = plan_.layout->layer(l);
  first = std::max(first, static_cast<std::uint32_t>(layer.first_block));
  end = std::min(end, static_cast<std::uint32_t>(layer.first_block + layer.block_count));
  WriteBlocks write{Lane::proactive, Bytes(0), {}};
  if (layer.dense) {
    const bool state = layer.block_count == 0 && layer.bytes.count() > 0;
    if (state ? !whole_layer : first >= end) return;
    write.runs.push_back({static_cast<std::uint32_t>(l), first, state ? 0 : end - first});
  } else {
    for (std::uint32_t b = first; b < end; ++b) {
      if (states_[l][b] != Block::chosen) continue;
      states_[l][b] = Block::sent;
      append_runs(static_cast<std::uint32_t>(l), {&b, 1}, write.runs);
    }
  }
  if (write.runs.empty()) return;
  for (const BlockRun& run : write.runs) write.bytes += plan_.wire_bytes(run);
  actions.push_back(std::move(write));
}

void SelectivePolicy::push_background(std::vector<PolicyAction>& actions) {
  const std::vector<BlockRef>& order = plan_.order->blocks;
  while (allowance_ > 0 && next_rank_ < order.size() &&
         in_flight_ < plan_.options->speculative_in_flight) {
    WriteBlocks write{Lane::speculative, Bytes(0), {}};
    std::vector<BlockRef> chunk;
    while (next_rank_ < order.size() && allowance_ > 0 &&
           static_cast<std::int64_t>(chunk.size()) < chunk_) {
      const BlockRef ref = order[next_rank_++];
      if (state(ref) != Block::waiting) continue;
      state(ref) = Block::sent;
      chunk.push_back(ref);
      --allowance_;
    }
    if (chunk.empty()) return;
    std::sort(chunk.begin(), chunk.end(), [](BlockRef a, BlockRef b) {
      return a.layer != b.layer ? a.layer < b.layer : a.block < b.block;
    });
    for (const BlockRef ref : chunk) {
      const std::uint32_t block = ref.block;
      append_runs(ref.layer, {&block, 1}, write.runs);
    }
    for (const BlockRun& run : write.runs) write.bytes += plan_.wire_bytes(run);
    in_flight_ += write.bytes;
    actions.push_back(std::move(write));
  }
}

void SelectivePolicy::on_event(TimePoint now, const PolicyEvent& event,
                               std::vector<PolicyAction>& actions) {
  if (full_) return full_->on_event(now, event, actions);
  const KvLayout& layout = *plan_.layout;
  const auto layers = static_cast<std::size_t>(layout.layer_count());

  if (const auto* started = std::get_if<PrefillStarted>(&event)) {
    choose(*started);
    if (plan_.options->auto_switch && full_pays(*started)) {
      full_ = std::make_unique<FullPolicy>(plan_);
      return full_->on_event(now, event, actions);
    }
    if (prefix_blocks_ > 0) {
      for (std::size_t l = 0; l < layers; ++l) push_layer(l, 0, prefix_blocks_, false, actions);
    }
  } else if (const auto* layer = std::get_if<LayerHandedOver>(&event)) {
    const std::size_t l = layer->layer.index();
    if (plan_.metadata[l].count() > 0) {
      actions.push_back(WriteMetadata{layer->layer, plan_.metadata[l]});
    }
    push_layer(l, prefix_blocks_, ~0U, true, actions);
  } else if (std::holds_alternative<PrefillFinished>(event)) {
    actions.push_back(AnnounceDone{false});
  } else if (const auto* idle = std::get_if<NetworkIdle>(&event)) {
    if (!plan_.options->speculative) return;
    if (idle->iteration != iteration_) {
      if (iteration_ < 0 && plan_.options->ratio_of == RatioOf::remaining_at_start) {
        const auto waiting =
            std::count_if(plan_.order->blocks.begin(), plan_.order->blocks.end(),
                          [this](BlockRef ref) { return state(ref) == Block::waiting; });
        per_iteration_ = std::max<std::int64_t>(
            1, std::llround(plan_.options->speculative_ratio * static_cast<double>(waiting)));
      }
      iteration_ = idle->iteration;
      allowance_ = per_iteration_;
    }
    push_background(actions);
  } else if (const auto* fetched = std::get_if<BlocksFetched>(&event)) {
    for (const BlockRun& run : fetched->runs) {
      for (std::uint32_t b = run.first; b < run.first + run.count; ++b) {
        states_[run.layer][b] = Block::sent;
      }
    }
  } else if (const auto* completed = std::get_if<WriteCompleted>(&event)) {
    if (completed->lane == Lane::speculative) {
      in_flight_ -= completed->bytes;
      push_background(actions);
    }
  } else if (const auto* arrived = std::get_if<BlocksArrived>(&event)) {
    for (const BlockRun& run : arrived->runs) {
      if (layout.layer(run.layer).dense) mandatory_missing_ -= std::max(run.count, 1U);
      blocks_missing_ -= run.count;
    }
    if (arrived->metadata_of.is_valid()) --mandatory_missing_;
  } else if (const auto* done = std::get_if<PrefillDoneHeard>(&event)) {
    done_heard_ = true;
    wait_for_all_ = done->wait_for_all;
  }
  if (done_heard_ && !started_ && mandatory_missing_ == 0 &&
      (!wait_for_all_ || blocks_missing_ == 0)) {
    started_ = true;
    actions.push_back(StartDecode{});
  }
}

}  // namespace kvlane
