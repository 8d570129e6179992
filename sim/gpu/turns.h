#pragma once
// Work on one set of threads, one piece after another in the order posted: what a CPU makes of the
// streams of a GPU. Whatever else these threads' processors do meanwhile, such as carrying bytes of
// a transport, holds up the piece at hand.

#include <deque>

#include "sim/port/event_loop.h"
#include "sim/port/trace.h"

namespace kvlane {

class Turns {
 public:
  Turns(EventLoop& loop, TraceSink* trace) : loop_(loop), trace_(trace) {}
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  // `record` is completed with its times and written when the piece ends.
  void post(const TraceRecord& record, Duration length, Callback completion);
  // The processors were taken for as long; of no matter while nothing runs.
  void hold_up(Duration taken);
  // Time in which something ran, up to now.
  Duration busy() const;

 private:
  struct Piece {
    TraceRecord record;
    Duration length{0};
    Callback completion;
  };
  void begin();
  void end();

  EventLoop& loop_;
  TraceSink* trace_;
  std::deque<Piece> pieces_;  // the front one runs
  TimePoint ends_{};
  TimerId timer_;
  Duration done_{0};
};

}  // namespace kvlane
