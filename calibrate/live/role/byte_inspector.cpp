#include "calibrate/live/role/byte_inspector.h"

#include <fmt/format.h>

#include <array>

#include "calibrate/live/memory/pattern.h"

namespace kvlane::live {
namespace {

const char* name_of(MessageKind kind) {
  static constexpr const char* kNames[] = {"blocks_arrived", "prefill_done", "rows_wanted",
                                           "rows_arrived",   "network_idle", "release"};
  return kNames[static_cast<std::size_t>(kind)];
}

}  // namespace

std::string ByteInspector::rows_problem(const Message& m) const {
  if (!m.layer.is_valid()) return "rows of no layer";
  std::size_t rows = 0;
  for (const RowGroup& group : m.groups) {
    if (group.request.index() >= plans_.size()) {
      return fmt::format("rows of request {} of {}", group.request.value(), plans_.size());
    }
    if (group.rows > m.index.size() - rows) return "more rows than its index has";
    const KvLayout& layout = *plans_[group.request.index()].transfer.layout;
    if (m.layer.value() >= layout.layer_count()) {
      return fmt::format("rows of layer {} of {}", m.layer.value(), layout.layer_count());
    }
    const LayerLayout& layer = layout.layer(m.layer.index());
    for (const std::uint32_t row : m.index.subspan(rows, group.rows)) {
      if (std::int64_t{row} >= layer.tokens * layer.kv_heads) {
        return fmt::format("row {} of the {} of layer {}", row, layer.tokens * layer.kv_heads,
                           m.layer.value());
      }
    }
    rows += group.rows;
  }
  if (rows != m.index.size() || std::int64_t(rows) != m.rows) {
    return fmt::format("{} rows, {} of them in groups, {} in its index", m.rows, rows,
                       m.index.size());
  }
  return {};
}

std::string ByteInspector::problem(EndpointId from, const Message& m) {
  const bool for_decode = m.kind == MessageKind::blocks_arrived ||
                          m.kind == MessageKind::prefill_done ||
                          m.kind == MessageKind::rows_arrived;
  std::string what;
  if (for_decode != decode_) {
    what = fmt::format("which belongs to the {} side", for_decode ? "decode" : "prefill");
  } else if (m.request.index() >= plans_.size()) {
    what = fmt::format("of request {} of {}", m.request.value(), plans_.size());
  } else if (!between_(from, m.request)) {
    what = fmt::format("of request {}, which is another's", m.request.value());
  } else if (m.iteration < 0 && m.kind == MessageKind::network_idle) {
    what = fmt::format("of iteration {}", m.iteration);
  } else {
    const KvLayout& layout = *plans_[m.request.index()].transfer.layout;
    for (const BlockRun& run : m.runs) {
      const bool known = std::int64_t{run.layer} < layout.layer_count();
      const LayerLayout* layer = known ? &layout.layer(run.layer) : nullptr;
      if (layer == nullptr || std::int64_t{run.first} < layer->first_block ||
          std::int64_t{run.first} + run.count > layer->first_block + layer->block_count) {
        what = fmt::format("of blocks {} + {} of layer {}, which are not all there", run.first,
                           run.count, run.layer);
        break;
      }
    }
    if (what.empty() && m.layer.is_valid() && m.layer.value() >= layout.layer_count()) {
      what = fmt::format("of layer {} of {}", m.layer.value(), layout.layer_count());
    }
    if (what.empty() &&
        (m.kind == MessageKind::rows_wanted || m.kind == MessageKind::rows_arrived)) {
      what = rows_problem(m);
    }
  }
  if (what.empty()) return {};
  return fmt::format("sent '{}' {}", name_of(m.kind), what);
}

void ByteInspector::verify(std::span<const Fragment> fragments) {
  for (const Fragment& f : fragments) {
    const std::span<const std::byte> bytes(regions_.own(f.region, f.offset, f.length),
                                           static_cast<std::size_t>(f.length));
    wrong_ += wrong_bytes(seed_of(f.region), f.offset, bytes);
    verified_ += f.length;
  }
}

void ByteInspector::arrived(EndpointId, const Message& m) {
  if (!verify_ || !decode_) return;
  pieces_.clear();
  if (m.kind == MessageKind::blocks_arrived) {
    const RequestPlan& plan = plans_[m.request.index()];
    append_block_fragments(plan, m.runs, pieces_);
    if (m.layer.is_valid()) {
      pieces_.push_back({plan.region, plan.metadata_offset[m.layer.index()],
                         plan.transfer.metadata[m.layer.index()].count()});
    }
  } else if (m.kind == MessageKind::rows_arrived) {
    std::span<const std::uint32_t> left = m.index;
    for (const RowGroup& group : m.groups) {
      append_row_fragments(plans_[group.request.index()], m.layer.index(), left.first(group.rows),
                           pieces_);
      left = left.subspan(group.rows);
    }
  }
  verify(pieces_);
}

void ByteInspector::fetched(std::span<const Fragment> fragments) {
  if (verify_) verify(fragments);
}

std::int64_t ByteInspector::strayed(RegionId region, const std::function<void()>& breathe) {
  const std::span<const std::byte> bytes = regions_.bytes_of(region);
  const auto length = static_cast<std::size_t>(plans_[region.index()].region_bytes);
  std::array<std::byte, 4096> expected;
  std::int64_t strayed = 0;
  for (std::size_t at = 0; at < length; at += expected.size()) {
    if (at % (std::size_t{64} << 20U) == 0) breathe();
    const std::size_t part = std::min(expected.size(), length - at);
    fill_pattern(seed_of(region), static_cast<std::int64_t>(at), std::span(expected).first(part));
    for (std::size_t i = 0; i < part; ++i) {
      strayed += bytes[at + i] != expected[i] && bytes[at + i] != std::byte{0} ? 1 : 0;
    }
  }
  return strayed;
}

}  // namespace kvlane::live
