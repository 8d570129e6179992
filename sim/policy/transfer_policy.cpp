#include "sim/policy/transfer_policy.h"

#include <cmath>

#include "sim/policy/full_policy.h"
#include "sim/policy/selective_policy.h"

namespace kvlane {

Bytes TransferPlan::wire_bytes(Bytes stored) const {
  if (wire_ratio == 1) return stored;
  return Bytes(
      static_cast<std::int64_t>(std::ceil(static_cast<double>(stored.count()) * wire_ratio)));
}

Bytes TransferPlan::wire_bytes(const BlockRun& run) const {
  const LayerLayout& layer = layout->layer(run.layer);
  if (run.first == layer.first_block && run.count == layer.block_count) {
    return wire_bytes(layer.bytes);  // a whole layer, a recurrent state included
  }
  const std::int64_t begin = layout->block_offset(run.layer, run.first);
  const std::int64_t last = run.first + run.count - 1;
  const std::int64_t end =
      layout->block_offset(run.layer, last) + layout->block_bytes(run.layer, last).count();
  return wire_bytes(Bytes(end - begin));
}

void append_runs(std::uint32_t layer, std::span<const std::uint32_t> blocks,
                 std::vector<BlockRun>& runs) {
  for (const std::uint32_t block : blocks) {
    if (!runs.empty() && runs.back().layer == layer &&
        runs.back().first + runs.back().count == block) {
      ++runs.back().count;
    } else {
      runs.push_back({layer, block, 1});
    }
  }
}

std::unique_ptr<TransferPolicy> make_policy(const TransferPlan& plan) {
  switch (plan.options->policy) {
    case PolicyKind::sequential:
    case PolicyKind::smartgen:
      return std::make_unique<SelectivePolicy>(plan);
    case PolicyKind::ideal:
    case PolicyKind::full:
    case PolicyKind::full_dense:
    case PolicyKind::hack:
    case PolicyKind::colocated:
      break;
  }
  return std::make_unique<FullPolicy>(plan);
}

}  // namespace kvlane
