#include "sim/serving/environment.h"

namespace kvlane {

// A payload of another width than the stored KV is laid out in proportion.
void append_row_fragments(const RequestPlan& plan, std::size_t l,
                          std::span<const std::uint32_t> index, std::vector<Fragment>& fragments) {
  const LayerLayout& layer = plan.transfer.layout->layer(l);
  const std::int64_t length = plan.transfer.wire_bytes(Bytes(layer.row_bytes)).count();
  for (const std::uint32_t row : index) {
    const Bytes begin(layer.offset + std::int64_t{row} * layer.row_bytes);
    fragments.push_back({plan.region, plan.transfer.wire_bytes(begin).count(), length});
  }
}

Bytes bytes_of(std::span<const Fragment> fragments) {
  Bytes sum(0);
  for (const Fragment& f : fragments) sum += Bytes(f.length);
  return sum;
}

void append_block_fragments(const RequestPlan& plan, std::span<const BlockRun> runs,
                            std::vector<Fragment>& fragments) {
  for (const BlockRun& run : runs) {
    if (run.count == 0) continue;
    const Bytes begin(plan.transfer.layout->block_offset(run.layer, run.first));
    fragments.push_back({plan.region, plan.transfer.wire_bytes(begin).count(),
                         plan.transfer.wire_bytes(run).count()});
  }
}

}  // namespace kvlane
