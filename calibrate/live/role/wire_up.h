#pragma once
// From a session to a connection: both sides say what they can do, the active one chooses, offers
// are exchanged, and both are ready.

#include <map>
#include <memory>
#include <string>

#include "calibrate/live/role/options.h"
#include "calibrate/live/session/session.h"
#include "calibrate/live/socket/listener.h"
#include "calibrate/live/transport/live_transport.h"

namespace kvlane::live {

// NICs by our address on them, opened once for all peers: opening one registers the whole pool.
using Nics = std::map<std::string, std::shared_ptr<Backend>>;

// What a connection stands on at this side. All outlive it.
struct WireSite {
  WallLoop& loop;
  Pool& pool;
  RegionTable& regions;
  LiveTransport& transport;
  EndpointId peer;
  ConnectionOptions connection;
  const LiveOptions& options;
  Nics& nics;
};

// Keeps what the connection needs; ends after the transport.
struct Wire {
  std::shared_ptr<Backend> backend;
  std::unique_ptr<PendingConnection> pending;
  std::string transport;  // its name
};

// Throw PeerError, RunError.
Wire wire_up_passive(Session& session, const WireSite& site, Listener& listener);
Wire wire_up_active(Session& session, const WireSite& site, const SocketAddress& peer);

}  // namespace kvlane::live
