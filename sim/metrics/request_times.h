#pragma once
// One definition each (docs/system.md 7). t_k is the time the k-th output token is complete, t_a
// the arrival:
//   ttft = t_1 - t_a   ttst = t_2 - t_1   second_token = t_2 - t_a   tbt = t_{k+1} - t_k for k >= 2
//   ctl(k) = t_k - t_a   jct = t_last - t_a   stall = ttst - ttst of the strategy's own ideal
// and the causes of ttft and ttst, which add up to them exactly.

#include <vector>

#include "sim/base/units.h"

namespace kvlane {

// The milestones of a request, from the trace.
struct RequestTimes {
  TimePoint arrived{};
  TimePoint prefill_started{};
  TimePoint layers_begin = kNever;  // computing of the first prefill layer
  TimePoint layers_end{};           // and the end of the last
  TimePoint prefill_finished{};     // token 1 is known at the prefill side
  TimePoint handed_over{};          // the last layer
  TimePoint data_ready{};           // all that decoding waits for is there
  TimePoint joined{};               // its first decode iteration begins
  Duration wire_alone{0};           // what the bytes missing at hand-over need at line rate
  std::vector<TimePoint> tokens;    // t_1, t_2, ...

  Duration ttft() const { return tokens[0] - arrived; }
  Duration ttst() const { return tokens[1] - tokens[0]; }
  Duration second_token() const { return tokens[1] - arrived; }
  Duration jct() const { return tokens.back() - arrived; }
};

struct TtstCauses {
  Duration prefill_tail{0}, wire{0}, queue{0}, orchestration{0}, fetch{0}, step{0};
  Duration sum() const { return prefill_tail + wire + queue + orchestration + fetch + step; }
};
struct TtftCauses {
  Duration queue{0}, prefill{0}, wire{0}, orchestration{0}, step{0};
  Duration sum() const { return queue + prefill + wire + orchestration + step; }
};

// `ideal_step`: t_2 minus the start of the iteration that made it, in the ideal's run. With
// `first_token_at_prefill` the transfer lands on ttst, else on ttft.
TtstCauses ttst_causes(const RequestTimes& times, bool first_token_at_prefill, Duration ideal_step);
TtftCauses ttft_causes(const RequestTimes& times, bool first_token_at_prefill);

}  // namespace kvlane
