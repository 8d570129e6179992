#pragma once
// `--role prefill --listen ADDR`: waits for a decode role, proves and compares, computes and sends
// what each run asks for, until the peer says goodbye.

#include "calibrate/live/role/options.h"
#include "calibrate/live/socket/address.h"
#include "sim/scenario/scenario.h"

namespace kvlane::live {

// Throws PeerError when the session ends otherwise than by the peer's goodbye; std::system_error
// when it cannot listen.
void run_prefill_role(const Scenario& scenario, const LiveOptions& options,
                      const SocketAddress& listen, const Say& say);

}  // namespace kvlane::live
