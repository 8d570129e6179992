#include "calibrate/live/role/wire_up.h"

#include <fmt/format.h>

#include "calibrate/live/role/await_connection.h"
#include "calibrate/live/role/choice.h"
#include "calibrate/live/session/handshake.h"

namespace kvlane::live {
namespace {

Callback stop(WallLoop& loop) {
  return {[](void* l, std::uint64_t) { static_cast<WallLoop*>(l)->stop(); }, &loop, 0};
}

Wire prepare(const std::string& name, const WireSite& site, Listener* listener,
             const SocketAddress& own, const SocketAddress& peer) {
  Wire wire;
  wire.transport = name;
  const auto open = [&] {
    return open_backend(name, site.loop, site.pool, listener, own, peer, site.options);
  };
  if (name == "rdma") {
    std::shared_ptr<Backend>& nic = site.nics[own.host()];
    if (!nic) nic = open();
    wire.backend = nic;
  } else {
    wire.backend = open();
  }
  const ConnectionMemory memory{&site.regions, &site.transport.remote_of(site.peer), site.peer};
  wire.pending = wire.backend->prepare(site.transport.owner_of(site.peer), memory, site.connection,
                                       listener != nullptr, stop(site.loop));
  return wire;
}

}  // namespace

Wire wire_up_passive(Session& session, const WireSite& site, Listener& listener) {
  const std::string able = abilities(site.options);
  session.send(FrameKind::accept, encode_config({{"transports", able}, {"host", host_identity()}}));
  const std::vector<std::byte> body = session.wait(FrameKind::transport, site.options.connect);
  Reader in(body);
  const std::string chosen = in.get_text(64);
  if (!in.done() || !lists(able, chosen)) {
    throw PeerError(fmt::format("{} chose transport '{}' of {}", session.peer(), chosen, able));
  }
  Wire wire = prepare(chosen, site, &listener, local_address(session.fd()), {});
  session.send(FrameKind::offer, wire.pending->offer());
  wire.pending->connect(session.wait(FrameKind::offer, site.options.connect));
  site.transport.connect(site.peer,
                         await_connection(*wire.pending, session, site.loop, site.options.connect));
  session.send(FrameKind::ready);
  session.wait(FrameKind::ready, site.options.connect);
  return wire;
}

Wire wire_up_active(Session& session, const WireSite& site, const SocketAddress& peer) {
  Config able;
  if (!decode_config(session.wait(FrameKind::accept, site.options.connect), able)) {
    throw PeerError(session.peer() + " said of its abilities what is none");
  }
  std::string transports;
  std::string host;
  for (const auto& [key, value] : able) {
    if (key == "transports") transports = value;
    if (key == "host") host = value;
  }
  std::string chosen;
  try {
    chosen = choose_transport(abilities(site.options), transports, host == host_identity(),
                              site.options.transport);
  } catch (const RunError& error) {
    session.send_text(FrameKind::abort, error.what());
    throw;
  }
  session.send_text(FrameKind::transport, chosen);
  Wire wire = prepare(chosen, site, nullptr, local_address(session.fd()), peer);
  const std::vector<std::byte> offer = session.wait(FrameKind::offer, site.options.connect);
  session.send(FrameKind::offer, wire.pending->offer());
  wire.pending->connect(offer);
  site.transport.connect(site.peer,
                         await_connection(*wire.pending, session, site.loop, site.options.connect));
  session.wait(FrameKind::ready, site.options.connect);
  session.send(FrameKind::ready);
  return wire;
}

}  // namespace kvlane::live
