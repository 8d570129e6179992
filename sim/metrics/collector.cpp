#include "sim/metrics/collector.h"

#include <algorithm>

#include "sim/base/check.h"
#include "sim/port/compute.h"

namespace kvlane {
namespace {

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash ^= value;
  hash *= 0x9e3779b97f4a7c15ULL;
  return hash ^ (hash >> 32U);
}

}  // namespace

MetricsCollector::MetricsCollector(std::size_t requests, TraceSink* next)
    : next_(next), requests_(requests) {}

void MetricsCollector::record(const TraceRecord& r) {
  if (next_ != nullptr) next_->record(r);
  const auto word = [](auto value) { return static_cast<std::uint64_t>(value); };
  hash_ = mix(hash_, word(r.kind) | word(r.lane) << 8U | word(r.detail) << 16U |
                         word(static_cast<std::uint32_t>(r.iteration)) << 32U);
  hash_ = mix(hash_, word(r.begin.time_since_epoch().count()));
  hash_ = mix(hash_, word(r.end.time_since_epoch().count()));
  hash_ = mix(hash_, word(r.bytes.count()) ^ word(r.value) << 20U);
  hash_ = mix(hash_, word(r.request.value()) | word(r.layer.value()) << 32U);

  last_activity_ = std::max(last_activity_, r.end);
  if (r.kind == TraceKind::transfer) {
    if (r.metadata) {
      metadata_ += r.bytes;
    } else {
      lane_bytes_[index(r.lane)] += r.bytes;
    }
    lane_bytes_[index(Lane::control)] += r.mask;
    if (r.lane != Lane::control) {
      first_kv_ = std::min(first_kv_, r.begin);
      last_kv_ = std::max(last_kv_, r.end);
    }
    if (r.request.is_valid() && r.lane == Lane::proactive) {
      requests_[r.request.index()].moved.push_back(
          {r.begin, r.end, r.bytes, r.source, r.destination});
    }
    return;
  }
  if (!r.request.is_valid()) return;
  Request& request = requests_[r.request.index()];
  RequestTimes& t = request.times;
  switch (r.kind) {
    case TraceKind::arrived:
      t.arrived = r.begin;
      break;
    case TraceKind::prefill_started:
      t.prefill_started = r.begin;
      break;
    case TraceKind::compute:
      if (r.detail == static_cast<std::uint8_t>(WorkKind::prefill_layer)) {
        if (t.layers_begin == kNever) t.layers_begin = r.begin;
        t.layers_end = r.end;
      }
      break;
    case TraceKind::layer_handed_over:
      t.handed_over = std::max(t.handed_over, r.begin);
      break;
    case TraceKind::prefill_finished:
      t.prefill_finished = r.begin;
      break;
    case TraceKind::mandatory_arrived:
      t.data_ready = r.begin;
      break;
    case TraceKind::switched_to_full:
      ++switched_;
      break;
    case TraceKind::joined:
      t.joined = r.begin;
      break;
    case TraceKind::token:
      KVLANE_CHECK(r.iteration == static_cast<std::int32_t>(t.tokens.size()) + 1,
                   "token {} of request {} after {} tokens", r.iteration, r.request.value(),
                   t.tokens.size());
      t.tokens.push_back(r.begin);
      end_ = std::max(end_, r.begin);
      break;
    case TraceKind::selection: {
      const auto step = static_cast<std::size_t>(r.iteration);
      if (selected_.size() <= step) {
        selected_.resize(step + 1, 0);
        remote_.resize(step + 1, 0);
      }
      selected_[step] += r.value;
      remote_[step] += r.bytes.count();
      break;
    }
    case TraceKind::local_blocks:
      if (r.value == r.bytes.count()) request.local_after = r.iteration + 1;
      break;
    default:
      break;
  }
}

bool MetricsCollector::finished() const {
  return std::all_of(requests_.begin(), requests_.end(),
                     [](const Request& r) { return r.times.tokens.size() >= 2; });
}

std::vector<RequestTimes> MetricsCollector::request_times(
    const std::function<Bandwidth(EndpointId, EndpointId)>& line_rate,
    const std::function<Duration(EndpointId, EndpointId)>& latency) const {
  std::vector<RequestTimes> all;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    const Request& request = requests_[i];
    RequestTimes times = request.times;
    KVLANE_CHECK(times.tokens.size() >= 2, "request {} got {} tokens", i, times.tokens.size());
    // What still had to cross at hand-over before the request could start; a transfer under way
    // then counts with the share of its time that was left.
    const TimePoint handed = std::max(times.handed_over, times.prefill_finished);
    double missing = 0;
    const Moved* last = nullptr;
    for (const Moved& m : request.moved) {
      if (m.end <= handed || m.end > times.data_ready) continue;
      const double whole = static_cast<double>((m.end - m.begin).count());
      const double left = static_cast<double>((m.end - std::max(handed, m.begin)).count());
      missing += static_cast<double>(m.bytes.count()) * (whole > 0 ? left / whole : 1.0);
      last = &m;
    }
    if (last != nullptr) {
      times.wire_alone = serialization_delay(Bytes(static_cast<std::int64_t>(missing)),
                                             line_rate(last->source, last->destination)) +
                         latency(last->source, last->destination);
    }
    all.push_back(std::move(times));
  }
  return all;
}

Duration MetricsCollector::transfer_time() const {
  return first_kv_ == kNever ? Duration::zero() : last_kv_ - first_kv_;
}

std::vector<double> MetricsCollector::on_demand_ratio() const {
  std::vector<double> ratio;
  for (std::size_t step = 0; step < selected_.size(); ++step) {
    ratio.push_back(selected_[step] > 0
                        ? static_cast<double>(remote_[step]) / static_cast<double>(selected_[step])
                        : 0.0);
  }
  return ratio;
}

std::optional<std::int64_t> MetricsCollector::local_after() const {
  std::int64_t latest = 0;
  for (const Request& request : requests_) {
    if (!request.local_after) return std::nullopt;
    latest = std::max(latest, *request.local_after);
  }
  return latest;
}

}  // namespace kvlane
