#pragma once
// Which transports and compute this process can do, and which of them a run takes.

#include <memory>
#include <string>
#include <vector>

#include "calibrate/live/memory/pool.h"
#include "calibrate/live/role/options.h"
#include "calibrate/live/socket/listener.h"
#include "calibrate/live/transport/connection.h"

namespace kvlane::live {

// Backends by name, best first ("rdma,shm,tcp"), of those that were asked for. RunError when one
// was asked for by name and this machine has not got it.
std::string abilities(const LiveOptions& options);
// The first of ours that the peer has too, but on one host shm before any: a NIC would send every
// byte over the bus twice. RunError without one.
std::string choose_transport(const std::string& ours, const std::string& theirs, bool same_host,
                             TransportKind asked);
// The best that this machine has, or what was asked for by name. RunError where that is missing.
ComputeKind choose_compute(const LiveOptions& options);

// Whether a comma-separated list has the word.
bool lists(const std::string& words, const std::string& word);

// What tells one boot of one host from another, and one network namespace from another.
std::string host_identity();

// `own`: of our end of the session. RDMA takes the NIC that has it, where one has.
std::unique_ptr<Backend> open_backend(const std::string& name, WallLoop& loop, Pool& pool,
                                      Listener* listener, const SocketAddress& own,
                                      const SocketAddress& peer, const LiveOptions& options);

}  // namespace kvlane::live
