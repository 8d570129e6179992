#pragma once
// Who knocks at a listener, one after the other. Strangers cannot keep others out: when too many
// wait, whoever has waited longest goes.

#include <deque>

#include "calibrate/live/loop/wall_loop.h"
#include "calibrate/live/socket/listener.h"

namespace kvlane::live {

inline constexpr Duration kAtTheDoor = std::chrono::seconds(10);  // for a word of the handshake

class Door {
 public:
  Door(WallLoop& loop, Listener& listener) : loop_(loop), listener_(listener) {}
  ~Door() { close(); }
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  // A socket that has said hello; the caller's from then on. Waits for one.
  int next();
  // Somebody is in: of the others that knock none is heard.
  void close();

 private:
  WallLoop& loop_;
  Listener& listener_;
  std::deque<int> waiting_;
};

}  // namespace kvlane::live
