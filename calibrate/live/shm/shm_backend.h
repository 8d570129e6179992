#pragma once
// Shared memory: both processes of one host map each other's pool. A write is a copy into the
// peer's memory, in slices by lane, and then a frame through a ring; a read is copied by its owner,
// who looks at bounds and epoch first. Memory is passed as sealed memfds over a UNIX socket, whose
// end is the peer's end: nothing stays behind under a name.
//
// A stopped process may go on writing into what it has mapped when it wakes up. What was exposed to
// a peer over shm is therefore never handed out again after the connection's end (fenced()).

#include <memory>
#include <string>

#include "calibrate/live/transport/connection.h"

namespace kvlane::live {

class ShmBackend final : public Backend {
 public:
  ShmBackend(WallLoop& loop, Pool& pool) : loop_(loop), pool_(pool) {}
  const char* name() const override { return "shm"; }
  std::unique_ptr<PendingConnection> prepare(ConnectionOwner& owner, const ConnectionMemory& memory,
                                             const ConnectionOptions& options, bool passive,
                                             Callback ready) override;

 private:
  WallLoop& loop_;
  Pool& pool_;
};

}  // namespace kvlane::live
