#pragma once
// Which loads a link is measured under: one axis at a time, so that a row differs from its
// neighbour in one thing.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "calibrate/live/link/link_role.h"

namespace kvlane::live {

struct LinkAxes {
  std::vector<std::int64_t> sizes;             // bytes an operation, alone and many in flight
  std::vector<std::int64_t> fragments;         // pieces of 1 MiB
  std::vector<std::int64_t> depths;            // operations in flight, 64 KiB each
  std::vector<std::int64_t> queues;            // queue pairs, and lanes beside them
  std::vector<std::int64_t> background_bytes;  // in flight, under fetches of 64 KiB in 16 pieces
  std::vector<TransferOp> operations{TransferOp::write, TransferOp::read};
  double seconds = 0.4;  // a row
};
// All of a minute, or of ten seconds.
LinkAxes full_axes();
LinkAxes quick_axes();

inline constexpr std::int64_t kFragmentedBytes = 1 << 20;  // an operation of the fragments' axis

enum class LinkAxis : std::uint8_t { size, fragments, sge, depth, queues, lanes, background };
const char* to_string(LinkAxis axis);

struct LinkRow {
  LinkAxis axis = LinkAxis::size;
  std::int64_t background_bytes = 0;
  LinkLoad load;
};
// `gathers`: the limits of a wire whose work requests gather; null: it has none.
std::vector<LinkRow> rows_of(const LinkAxes& axes, const TransportLimits* gathers);

struct MeasuredRow {
  LinkRow row;
  LinkSample sample;
  std::int64_t verified_bytes = 0;
};
struct SweepResult {
  std::vector<MeasuredRow> rows;
  // Rows that would have taken many times their seconds, at the best rate until then.
  std::int64_t left_out = 0;
};
// `done`: after each row.
SweepResult measure_rows(LinkProbe& probe, const std::vector<LinkRow>& rows, bool verify,
                         const std::function<void()>& done);

}  // namespace kvlane::live
