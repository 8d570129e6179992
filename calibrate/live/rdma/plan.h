#pragma once
// How an operation becomes work requests: which neighbours are one, what is packed, where a part
// ends. No verbs here.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "calibrate/live/memory/pool.h"
#include "calibrate/live/transport/connection.h"
#include "calibrate/live/wire/message.h"

namespace kvlane::live {

// A contiguous piece at both ends: offsets in the two pools.
struct Piece {
  EpochFragment named;  // as the peer knows it
  std::int64_t local = 0, remote = 0;
};

// One work request: one run of remote bytes, `pieces` local ones.
struct Run {
  std::size_t first = 0, pieces = 0;
  std::int64_t bytes = 0;
};

// A stretch of the pieces that one record speaks of.
struct Part {
  std::size_t first = 0, pieces = 0;
  std::int64_t bytes = 0;
};

struct PartLimits {
  std::size_t pieces = 0;
  std::int64_t bytes = 0;
};

// Neighbours in one region merged, pieces longer than `longest` cut. Nothing: a fragment lies in no
// region of the peer that we know of, or not inside.
std::optional<std::vector<Piece>> place_fragments(std::span<const Fragment> fragments,
                                                  RegionTable& local, const RemoteRegions& remote,
                                                  std::uint64_t remote_pool_bytes,
                                                  std::int64_t longest);

// Many small pieces: copying them together costs less than a work request for each.
bool packing_wins(std::span<const Piece> pieces);

std::vector<Run> make_runs(std::span<const Piece> pieces, int max_sge, std::int64_t longest);
std::vector<Part> make_parts(std::span<const Piece> pieces, const PartLimits& limits);

std::vector<EpochFragment> names_of(std::span<const Piece> pieces);
// The first and the last piece of each stretch in one region: inside where both are.
std::vector<EpochFragment> ends_of(std::span<const EpochFragment> names);

}  // namespace kvlane::live
