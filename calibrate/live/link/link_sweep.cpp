#include "calibrate/live/link/link_sweep.h"

#include <algorithm>

namespace kvlane::live {
namespace {

constexpr std::int64_t kSmall = 65536;  // bytes an operation, where the number of them matters
constexpr std::int64_t kInFlight = 16;  // operations, where throughput is asked for
constexpr std::int64_t kInFlightBytes = 64 << 20;
constexpr std::int64_t kFetchPieces = 16;
constexpr double kLongest = 8;  // times a row's seconds: what it may take on a slow link
constexpr std::int64_t kEnoughToTell = 1 << 16;  // bytes of an operation that tells the rate

std::vector<std::int64_t> powers(std::int64_t from, std::int64_t to, std::int64_t factor) {
  std::vector<std::int64_t> values;
  for (std::int64_t v = from; v <= to; v *= factor) values.push_back(v);
  return values;
}

LinkLoad load_of(const LinkAxes& axes, TransferOp op, std::int64_t bytes, std::int64_t depth) {
  LinkLoad load;
  load.op = op;
  load.lane = op == TransferOp::read ? Lane::on_demand : Lane::proactive;
  load.bytes = bytes;
  load.depth = static_cast<int>(depth);
  load.seconds = axes.seconds;
  load.warm_up_seconds = axes.seconds / 4;
  return load;
}

// So much in flight that the wire is full, but no more than half a second of a slow one.
std::int64_t full_depth(std::int64_t bytes) {
  return std::clamp<std::int64_t>(kInFlightBytes / bytes, 2, kInFlight);
}

}  // namespace

LinkAxes full_axes() {
  LinkAxes axes;
  // 64 B: latency alone. 512 B: a row of an 8B model.
  axes.sizes = {64, 512};
  for (const std::int64_t bytes : powers(4096, 16 << 20, 2)) axes.sizes.push_back(bytes);
  axes.fragments = powers(1, 4096, 4);
  axes.depths = powers(1, 64, 2);
  axes.queues = {1, 2, 3, 4};
  axes.background_bytes = {0, 1 << 20, 8 << 20, 64 << 20};
  axes.seconds = 0.35;
  return axes;
}

LinkAxes quick_axes() {
  LinkAxes axes = full_axes();
  axes.sizes = {64, 512};
  for (const std::int64_t bytes : powers(4096, 16 << 20, 4)) axes.sizes.push_back(bytes);
  axes.fragments = powers(1, 4096, 16);
  axes.depths = powers(1, 64, 4);
  axes.queues = {1, 4};
  axes.seconds = 0.08;
  return axes;
}

const char* to_string(LinkAxis axis) {
  static constexpr const char* kNames[] = {"size",   "fragments", "sge",       "depth",
                                           "queues", "lanes",     "background"};
  return kNames[static_cast<std::size_t>(axis)];
}

std::vector<LinkRow> rows_of(const LinkAxes& axes, const TransportLimits* gathers) {
  std::vector<LinkRow> rows;
  const auto add = [&](LinkAxis axis, const LinkLoad& load, std::int64_t background = 0) {
    rows.push_back({axis, background, load});
  };
  for (const TransferOp op : axes.operations) {
    for (const std::int64_t bytes : axes.sizes) {
      add(LinkAxis::size, load_of(axes, op, bytes, 1));
      add(LinkAxis::size, load_of(axes, op, bytes, full_depth(bytes)));
    }
    const auto fragmented = [&](LinkAxis axis, std::int64_t bytes, std::int64_t pieces) {
      LinkLoad load = load_of(axes, op, bytes, 4);
      load.fragments = pieces;
      add(axis, load);
    };
    for (const std::int64_t pieces : axes.fragments) {
      fragmented(LinkAxis::fragments, kFragmentedBytes, pieces);
    }
    // Around what one work request gathers.
    if (gathers != nullptr && !axes.fragments.empty()) {
      const int sge = op == TransferOp::read ? gathers->max_read_sge : gathers->max_send_sge;
      for (const int pieces : {1, sge, sge + 1}) {
        fragmented(LinkAxis::sge, std::int64_t{4096} * pieces, pieces);
      }
    }
    for (const std::int64_t depth : axes.depths) {
      add(LinkAxis::depth, load_of(axes, op, kSmall, depth));
    }
    for (const std::int64_t queues : axes.queues) {
      LinkLoad load = load_of(axes, op, kSmall, kInFlight);
      load.queues = static_cast<std::uint32_t>(queues);
      add(LinkAxis::queues, load);
    }
    if (!axes.queues.empty()) {
      for (const int lanes : {1, 2, 3}) {
        LinkLoad load = load_of(axes, op, kSmall, kInFlight);
        load.lane = Lane::on_demand;
        load.lanes = lanes;
        add(LinkAxis::lanes, load);
      }
    }
  }
  if (std::find(axes.operations.begin(), axes.operations.end(), TransferOp::read) !=
      axes.operations.end()) {
    for (const std::int64_t background : axes.background_bytes) {
      LinkLoad load = load_of(axes, TransferOp::read, kSmall, 1);
      load.fragments = kFetchPieces;
      load.seconds = 2 * axes.seconds;  // p99 needs many
      load.least_count = 100;
      add(LinkAxis::background, load, background);
    }
  }
  return rows;
}

SweepResult measure_rows(LinkProbe& probe, const std::vector<LinkRow>& rows, bool verify,
                         const std::function<void()>& done) {
  SweepResult result;
  double best = 0;  // GB/s
  for (const LinkRow& row : rows) {
    const double in_flight = static_cast<double>(row.load.bytes * row.load.depth) / 1e9;
    if (best > 0 && in_flight / best > kLongest * row.load.seconds) {
      ++result.left_out;
      done();
      continue;
    }
    MeasuredRow measured{row, {}, 0};
    if (verify) measured.verified_bytes = probe.verify(row.load);
    if (row.background_bytes > 0) probe.background(row.background_bytes);
    measured.sample = probe.measure(row.load);
    if (row.background_bytes > 0) probe.background(0);
    if (row.load.bytes >= kEnoughToTell) {
      best = std::max(best, measured.sample.rate_GBps);
    }
    result.rows.push_back(measured);
    done();
  }
  return result;
}

}  // namespace kvlane::live
