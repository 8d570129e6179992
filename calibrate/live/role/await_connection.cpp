#include "calibrate/live/role/await_connection.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvlane::live {

std::unique_ptr<Connection> await_connection(PendingConnection& pending, Session& session,
                                             WallLoop& loop, Duration limit) {
  const TimePoint end = later(std::max(loop.now(), loop.clock()), limit);
  const TimerId timer = loop.schedule_at(
      end, {[](void* l, std::uint64_t) { static_cast<WallLoop*>(l)->stop(); }, &loop, 0});
  std::string ended;
  session.on_end([&](const std::string& reason) {
    ended = reason;
    loop.stop();
  });
  std::unique_ptr<Connection> made;
  loop.hold();
  for (;;) {
    made = pending.take();
    if (made || !pending.error().empty() || !ended.empty() || loop.clock() >= end) break;
    loop.run();
  }
  loop.release();
  loop.cancel(timer);
  session.on_end(nullptr);
  if (made) return made;
  if (!pending.error().empty()) {
    throw PeerError(fmt::format("{}: {}", session.peer(), pending.error()));
  }
  if (!ended.empty()) throw PeerError(fmt::format("{} {}", session.peer(), ended));
  throw PeerError(
      fmt::format("{}: no connection within {:.1f} s", session.peer(), to_seconds(limit)));
}

}  // namespace kvlane::live
