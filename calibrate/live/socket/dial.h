#pragma once

#include "calibrate/live/role/options.h"
#include "calibrate/live/socket/address.h"
#include "calibrate/live/socket/listener.h"
#include "sim/base/units.h"

namespace kvlane::live {

// A connected socket that has said hello; tries again while nobody listens, for `limit`, and says
// that it does. Blocks: for the start of a role. PeerError with the address and the last reason.
int dial(const SocketAddress& address, const Hello& hello, Duration limit, const Say& say);

}  // namespace kvlane::live
