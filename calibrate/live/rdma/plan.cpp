#include "calibrate/live/rdma/plan.h"

#include <algorithm>

namespace kvlane::live {
namespace {

constexpr std::size_t kPackFrom = 17;           // pieces
constexpr std::int64_t kPackBelow = 16 * 1024;  // bytes a piece on average

}  // namespace

std::optional<std::vector<Piece>> place_fragments(std::span<const Fragment> fragments,
                                                  RegionTable& local, const RemoteRegions& remote,
                                                  std::uint64_t remote_pool_bytes,
                                                  std::int64_t longest) {
  std::vector<Piece> pieces;
  pieces.reserve(fragments.size());
  for (const Fragment& f : fragments) {
    if (f.length == 0) continue;
    const std::int64_t at = local.own(f.region, f.offset, f.length) - local.pool().data();
    const RegionPlace* place = remote.find(f.region);
    // The place came from the peer too: its own numbers must lie in its pool.
    if (place == nullptr || f.offset > place->length || f.length > place->length - f.offset ||
        place->offset < 0 || place->length < 0 ||
        static_cast<std::uint64_t>(place->offset) > remote_pool_bytes ||
        static_cast<std::uint64_t>(place->length) >
            remote_pool_bytes - static_cast<std::uint64_t>(place->offset)) {
      return std::nullopt;
    }
    Fragment left = f;
    if (!pieces.empty()) {
      Piece& last = pieces.back();
      Fragment& before = last.named.fragment;
      if (before.region == f.region && before.offset + before.length == f.offset &&
          before.length < longest) {
        const std::int64_t more = std::min(f.length, longest - before.length);
        before.length += more;
        left.offset += more;
        left.length -= more;
      }
    }
    while (left.length > 0) {
      const std::int64_t length = std::min(left.length, longest);
      const std::int64_t skipped = left.offset - f.offset;
      pieces.push_back({{{f.region, left.offset, length}, place->epoch},
                        at + skipped,
                        place->offset + left.offset});
      left.offset += length;
      left.length -= length;
    }
  }
  return pieces;
}

bool packing_wins(std::span<const Piece> pieces) {
  if (pieces.size() < kPackFrom) return false;
  std::int64_t bytes = 0;
  for (const Piece& piece : pieces) bytes += piece.named.fragment.length;
  return bytes < kPackBelow * static_cast<std::int64_t>(pieces.size());
}

std::vector<Run> make_runs(std::span<const Piece> pieces, int max_sge, std::int64_t longest) {
  std::vector<Run> runs;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::int64_t length = pieces[i].named.fragment.length;
    const bool continues =
        !runs.empty() &&
        pieces[i - 1].remote + pieces[i - 1].named.fragment.length == pieces[i].remote &&
        runs.back().pieces < static_cast<std::size_t>(max_sge) &&
        runs.back().bytes + length <= longest;
    if (!continues) runs.push_back({i, 0, 0});
    ++runs.back().pieces;
    runs.back().bytes += length;
  }
  return runs;
}

std::vector<Part> make_parts(std::span<const Piece> pieces, const PartLimits& limits) {
  std::vector<Part> parts;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::int64_t length = pieces[i].named.fragment.length;
    if (parts.empty() || parts.back().pieces == limits.pieces ||
        parts.back().bytes + length > limits.bytes) {
      parts.push_back({i, 0, 0});
    }
    ++parts.back().pieces;
    parts.back().bytes += length;
  }
  if (parts.empty()) parts.emplace_back();
  return parts;
}

std::vector<EpochFragment> names_of(std::span<const Piece> pieces) {
  std::vector<EpochFragment> names;
  names.reserve(pieces.size());
  for (const Piece& piece : pieces) names.push_back(piece.named);
  return names;
}

std::vector<EpochFragment> ends_of(std::span<const EpochFragment> names) {
  std::vector<EpochFragment> ends;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto other = [&](std::size_t j) {
      return names[j].fragment.region != names[i].fragment.region ||
             names[j].epoch != names[i].epoch;
    };
    if (i == 0 || other(i - 1) || i + 1 == names.size() || other(i + 1)) ends.push_back(names[i]);
  }
  return ends;
}

}  // namespace kvlane::live
