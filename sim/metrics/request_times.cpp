#include "sim/metrics/request_times.h"

#include <algorithm>

namespace kvlane {
namespace {

// The way from the moment `from` on which the request waits for its KV until its first iteration.
struct HandOver {
  Duration tail{0}, wire{0}, queue{0}, orchestration{0};
};

HandOver hand_over(const RequestTimes& t, TimePoint from) {
  HandOver parts;
  const TimePoint handed = std::max(from, t.handed_over);
  const TimePoint ready = std::max(handed, t.data_ready);
  parts.tail = handed - from;
  parts.wire = std::min(t.wire_alone, ready - handed);
  parts.queue = ready - handed - parts.wire;
  parts.orchestration = t.joined - ready;
  return parts;
}

}  // namespace

TtstCauses ttst_causes(const RequestTimes& t, bool first_token_at_prefill, Duration ideal_step) {
  TtstCauses causes;
  Duration first_step = t.ttst();
  if (first_token_at_prefill) {
    const HandOver parts = hand_over(t, t.tokens[0]);
    causes.prefill_tail = parts.tail;
    causes.wire = parts.wire;
    causes.queue = parts.queue;
    causes.orchestration = parts.orchestration;
    first_step = t.tokens[1] - t.joined;
  }
  causes.step = std::min(first_step, ideal_step);
  causes.fetch = first_step - causes.step;
  return causes;
}

TtftCauses ttft_causes(const RequestTimes& t, bool first_token_at_prefill) {
  TtftCauses causes;
  causes.queue = t.prefill_started - t.arrived;
  causes.prefill = t.prefill_finished - t.prefill_started;
  if (!first_token_at_prefill) {
    const HandOver parts = hand_over(t, t.prefill_finished);
    causes.prefill += parts.tail;
    causes.wire = parts.wire;
    causes.queue += parts.queue;
    causes.orchestration = parts.orchestration;
    causes.step = t.tokens[0] - t.joined;
  }
  return causes;
}

}  // namespace kvlane
