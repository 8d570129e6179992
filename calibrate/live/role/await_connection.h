#pragma once

#include <memory>

#include "calibrate/live/session/session.h"
#include "calibrate/live/transport/connection.h"

namespace kvlane::live {

// Runs the loop until the connection is made. PeerError when it failed, the session ended or the
// time is over.
std::unique_ptr<Connection> await_connection(PendingConnection& pending, Session& session,
                                             WallLoop& loop, Duration limit);

}  // namespace kvlane::live
