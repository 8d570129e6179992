#include "sim/gpu/turns.h"

namespace kvlane {

void Turns::post(const TraceRecord& record, Duration length, Callback completion) {
  pieces_.push_back({record, length, completion});
  if (pieces_.size() == 1) begin();
}

void Turns::begin() {
  Piece& piece = pieces_.front();
  piece.record.begin = loop_.now();
  ends_ = later(loop_.now(), piece.length);
  timer_ = loop_.schedule_at(
      ends_, {[](void* self, std::uint64_t) { static_cast<Turns*>(self)->end(); }, this, 0});
}

void Turns::hold_up(Duration taken) {
  if (pieces_.empty() || taken <= Duration::zero()) return;
  loop_.cancel(timer_);
  ends_ = later(ends_, taken);
  timer_ = loop_.schedule_at(
      ends_, {[](void* self, std::uint64_t) { static_cast<Turns*>(self)->end(); }, this, 0});
}

void Turns::end() {
  Piece piece = pieces_.front();
  pieces_.pop_front();
  piece.record.end = loop_.now();
  done_ += piece.record.end - piece.record.begin;
  if (trace_ != nullptr) trace_->record(piece.record);
  if (!pieces_.empty()) begin();
  if (piece.completion) piece.completion();
}

Duration Turns::busy() const {
  return pieces_.empty() ? done_ : done_ + (loop_.now() - pieces_.front().record.begin);
}

}  // namespace kvlane
