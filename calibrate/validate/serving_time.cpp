#include "calibrate/validate/serving_time.h"

#include <algorithm>

namespace kvlane::calibrate {

double ServingTime::prefill(std::int64_t sequences, std::int64_t tokens) const {
  Work work;
  work.kind = WorkKind::prefill_layer;
  work.batch = sequences;
  work.new_tokens = work.context_tokens = sequences * tokens;
  double seconds = 0;
  for (std::size_t l = 0; l < cost_.model().layers.size(); ++l) {
    work.layer = LayerId(l);
    seconds += to_seconds(cost_.duration(work));
  }
  work = {};
  work.kind = WorkKind::prefill_head;
  work.batch = sequences;
  return seconds + to_seconds(cost_.duration(work));
}

double ServingTime::step(std::int64_t sequences, std::int64_t kv_tokens) const {
  Work work;
  work.batch = sequences;
  double seconds = 0;
  for (std::size_t l = 0; l < cost_.model().layers.size(); ++l) {
    work.layer = LayerId(l);
    work.attended_rows = sequences * kv_tokens * cost_.model().layers[l].kv_heads;
    for (const WorkKind kind :
         {WorkKind::decode_qkv, WorkKind::decode_attention, WorkKind::decode_ffn}) {
      work.kind = kind;
      seconds += to_seconds(cost_.duration(work));
    }
  }
  for (const WorkKind kind : {WorkKind::decode_head, WorkKind::host_step}) {
    work = {};
    work.kind = kind;
    work.batch = sequences;
    seconds += to_seconds(cost_.duration(work));
  }
  return seconds;
}

// Steps grow linearly with the context but for corners of the smooth maximum: the midpoint of each
// of up to 64 pieces stands for its steps.
double ServingTime::batch(std::int64_t sequences, std::int64_t prompt, std::int64_t output) const {
  double seconds = prefill(sequences, prompt);
  const std::int64_t steps = output - 1;
  const std::int64_t pieces = std::min<std::int64_t>(steps, 64);
  for (std::int64_t p = 0; p < pieces; ++p) {
    const std::int64_t first = steps * p / pieces;
    const std::int64_t end = steps * (p + 1) / pieces;
    seconds += static_cast<double>(end - first) * step(sequences, prompt + 1 + (first + end) / 2);
  }
  return seconds;
}

double ServingTime::token_gap(std::int64_t sequences, std::int64_t prompt,
                              std::int64_t output) const {
  const double starts = static_cast<double>(sequences - 1) / static_cast<double>(output);
  return step(sequences, prompt + output / 2) + starts * prefill(1, prompt);
}

}  // namespace kvlane::calibrate
