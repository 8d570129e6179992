#pragma once
// TCP: one stream a (lane, queue), all to the port on which the sessions are heard. A write is
// acknowledged when its bytes lie in place; within a stream nothing overtakes. A lower lane writes
// only when the higher ones have nothing left to give to the kernel, and the kernel holds little
// (TCP_NOTSENT_LOWAT), so that lanes have priority at the sender on any path.

#include <memory>
#include <string>

#include "calibrate/live/socket/listener.h"
#include "calibrate/live/transport/connection.h"

namespace kvlane::live {

class TcpBackend final : public Backend {
 public:
  // `listener`: of the passive side, else null; `peer`: whom the active side connects to.
  TcpBackend(WallLoop& loop, Listener* listener, const SocketAddress& peer)
      : loop_(loop), listener_(listener), peer_(peer) {}
  const char* name() const override { return "tcp"; }
  std::unique_ptr<PendingConnection> prepare(ConnectionOwner& owner, const ConnectionMemory& memory,
                                             const ConnectionOptions& options, bool passive,
                                             Callback ready) override;

 private:
  WallLoop& loop_;
  Listener* listener_;
  SocketAddress peer_;
};

}  // namespace kvlane::live
