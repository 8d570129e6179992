#include "calibrate/live/role/decode_role.h"

#include <fmt/format.h>

#include <algorithm>

#include "calibrate/live/role/choice.h"
#include "calibrate/live/role/role.h"
#include "calibrate/live/role/run_frames.h"
#include "calibrate/live/role/summary.h"
#include "calibrate/live/role/wire_up.h"
#include "calibrate/live/socket/dial.h"
#include "sim/base/check.h"

namespace kvlane::live {
namespace {

constexpr int kPings = 64;
// From the last word of the set-up to the arrival of the requests, at every role alike.
constexpr Duration kLead = std::chrono::milliseconds(20);
constexpr std::int32_t kMostIterations = 1 << 24;
constexpr Duration kClocksApart = std::chrono::seconds(1);  // after they were aligned

struct Peer {
  EndpointId endpoint;
  std::unique_ptr<Session> session;
  Wire wire;
  Session::ClockOffset clock;
  std::string address;
  std::vector<TraceRecord> records;
  std::string bad_records;
};

// Ends the loop when every request has its last token.
struct TokenWatch final : TraceSink {
  WallLoop* loop = nullptr;
  std::size_t left = 0;
  std::int32_t last = 0;
  void record(const TraceRecord& r) override {
    if (r.kind == TraceKind::token && r.iteration == last && --left == 0) loop->stop();
  }
};

}  // namespace

struct DecodeRole::State {
  State(const Scenario& s, const LiveOptions& o, ComputeKind kind)
      : scenario(s), options(o), compute(kind), end(loop, s, o, kind, places_of(s).decode) {}

  void dial_to(Peer& peer, const SocketAddress& address, std::size_t number, const Say& say);
  void shake_hands(Peer& peer, std::size_t number);
  void connect(Peer& peer, const SocketAddress& address);
  void watch_end(Session& session);
  void measure_clocks();

  const Scenario& scenario;
  const LiveOptions& options;
  ComputeKind compute;
  WallLoop loop{spin_of(compute)};
  Nics nics;
  RoleEnd end;
  std::vector<std::unique_ptr<Peer>> peers;
  std::uint64_t runs = 0;
  TimePoint run_zero{};
  bool closed = false;
};

void DecodeRole::State::dial_to(Peer& peer, const SocketAddress& address, std::size_t number,
                                const Say& say) {
  peer.endpoint = end.places.prefills[number];
  const std::string& name = end.places.endpoint_names[peer.endpoint.index()];
  Session::Options session_options;
  session_options.lease = options.lease;
  session_options.peer = fmt::format("{} at {}", name, address.text());
  peer.address = address.text();
  end.peer_names[peer.endpoint.index()] = session_options.peer;
  peer.session = std::make_unique<Session>(loop, dial(address, {}, options.connect, say),
                                           std::move(session_options));
  peer.session->on_turn([this] { end.check(); });
}

void DecodeRole::State::shake_hands(Peer& peer, std::size_t number) {
  Config config = config_of(scenario, compute, options);
  config.emplace_back("instance", fmt::format("{}", number));
  shake_hands_active(*peer.session, {options.secret, options.version}, config, options.connect);
  watch_end(*peer.session);
}

void DecodeRole::State::watch_end(Session& session) {
  session.on_end([this, &session](const std::string& reason) {
    end.fail(fmt::format("{} {}", session.peer(), reason));
  });
}

void DecodeRole::State::connect(Peer& peer, const SocketAddress& address) {
  Session& session = *peer.session;
  ConnectionOptions connection;
  connection.queues = end.places.queues;
  connection.checksum = options.checksum;
  peer.wire = wire_up_active(
      session,
      {loop, *end.pool, *end.regions, *end.transport, peer.endpoint, connection, options, nics},
      address);
  end.transport->set_line(peer.endpoint, line_between(scenario, end.places, peer.endpoint));
  watch_end(session);
  session.take_up(FrameKind::prefill_ended, [this, &peer](std::span<const std::byte> body) {
    for (const auto& other : peers) {
      if (other.get() != &peer) other->session->send(FrameKind::prefill_ended, body);
    }
  });
  session.take_up(FrameKind::push_fail, [this, &session](std::span<const std::byte> body) {
    Reader in(body);
    const auto request = in.get<std::uint32_t>();
    const std::string why = in.get_text(1024);
    end.fail(in.done()
                 ? fmt::format("{} could not push request {}: {}", session.peer(), request, why)
                 : session.peer() + " told of a push that failed in words that are none");
  });
  session.take_up(FrameKind::records, [this, &peer](std::span<const std::byte> body) {
    const Duration since = loop.clock() - run_zero;
    const RecordBounds bounds{end.plans().size(),
                              scenario.model.layers.size(),
                              end.places.gpu_count,
                              end.places.endpoint_names.size(),
                              kMostIterations,
                              TimePoint(-kClocksApart),
                              TimePoint(since + kClocksApart),
                              Bytes(static_cast<std::int64_t>(end.pool->size()))};
    if (peer.bad_records.empty()) peer.bad_records = decode_records(body, bounds, peer.records);
  });
}

void DecodeRole::State::measure_clocks() {
  for (auto& peer : peers) peer->clock = peer->session->measure_clock(kPings, options.connect);
}

DecodeRole::DecodeRole(const Scenario& scenario, const LiveOptions& options,
                       const std::vector<SocketAddress>& peers, const Say& say) {
  const Places places = places_of(scenario);
  pin_to(options.processors);
  if (peers.size() != places.prefills.size()) {
    throw OptionError(
        fmt::format("{} prefill peers; expected {}, one --peer ADDR for "
                    "each prefill instance of the scenario",
                    peers.size(), places.prefills.size()));
  }
  state_ = std::make_unique<State>(scenario, options, choose_compute(options));
  State& s = *state_;
  s.end.breathe = [this] { breathe(); };
  // All are dialled before any is greeted: whoever is in counts heartbeats, and dialling waits.
  for (std::size_t i = 0; i < peers.size(); ++i) {
    s.peers.push_back(std::make_unique<Peer>());
    s.dial_to(*s.peers.back(), peers[i], i, say);
  }
  for (std::size_t i = 0; i < peers.size(); ++i) s.shake_hands(*s.peers[i], i);
  for (std::size_t i = 0; i < peers.size(); ++i) s.connect(*s.peers[i], peers[i]);
}

DecodeRole::~DecodeRole() {
  if (state_ && !state_->closed) {
    // Not by close(): something went wrong here, and the peers should know.
    for (const auto& peer : state_->peers) {
      if (!peer->session) continue;
      const std::string& why = state_->end.failure();
      peer->session->send_text(FrameKind::abort, why.empty() ? "the decode role ended early" : why);
      peer->session->close();
    }
  }
}

StrategyRun DecodeRole::run(const StrategyOptions& strategy, std::uint32_t seed,
                            const TraceFor& trace) {
  State& s = *state_;
  RoleEnd& end = s.end;
  RunNumber number;
  while (number.strategy < s.scenario.strategies.size() &&
         &s.scenario.strategies[number.strategy] != &strategy) {
    ++number.strategy;
  }
  number.seed = seed;
  number.number = ++s.runs;
  for (const auto& peer : s.peers) peer->session->send(FrameKind::prepare, encode_prepare(number));
  const std::vector<RegionPlace> own = end.prepare(number);
  for (const auto& peer : s.peers) {
    const auto places = decode_places(
        peer->session->wait(FrameKind::prepared, s.options.timeout * 6), end.plans().size());
    if (!places) throw PeerError(peer->session->peer() + " sent regions that are none");
    RemoteRegions& remote = end.transport->remote_of(peer->endpoint);
    remote.clear();
    for (const RegionPlace& place : *places) {
      if (place.length < end.plans()[place.region.index()].region_bytes) {
        throw PeerError(fmt::format("{}: region {} of {} bytes; expected {}", peer->session->peer(),
                                    place.region.value(), place.length,
                                    end.plans()[place.region.index()].region_bytes));
      }
      remote.set(place);
    }
    peer->records.clear();
    peer->bad_records.clear();
  }
  s.measure_clocks();
  const TimePoint zero = later(std::max(s.loop.clock(), s.loop.now()), kLead);
  s.run_zero = zero;
  const std::int64_t loop_zero_ns = zero_ns(s.loop);
  const std::int64_t zero_ns = loop_zero_ns + zero.time_since_epoch().count() / 1000;
  for (const auto& peer : s.peers) {
    StartFrame start;
    start.zero_ns = zero_ns + peer->clock.peer_minus_own_ns;
    start.peer_minus_own_ns = peer->clock.peer_minus_own_ns;
    start.loop_zero_ns = loop_zero_ns;
    for (const RegionPlace& place : own) {
      if (end.deployment().prefill_of(end.plans()[place.region.index()].id) == peer->endpoint) {
        start.places.push_back(place);
      }
    }
    peer->session->send(FrameKind::start, encode_start(start));
  }
  TokenWatch watch;
  watch.loop = &s.loop;
  watch.left = end.plans().size();
  watch.last = static_cast<std::int32_t>(s.scenario.output_tokens);
  end.start(zero, &watch);
  while (watch.left > 0) end.run();
  end.drain();
  for (const auto& peer : s.peers) peer->session->send(FrameKind::run_end);
  for (const auto& peer : s.peers) {
    peer->session->wait(FrameKind::run_done, s.options.timeout * 4);
    if (!peer->bad_records.empty()) {
      throw PeerError(fmt::format("{} sent records that are none: {}", peer->session->peer(),
                                  peer->bad_records));
    }
  }
  const std::vector<RequestPlan> plans = end.plans();
  std::vector<TraceRecord> records = end.finish();
  for (const auto& peer : s.peers) {
    records.insert(records.end(), peer->records.begin(), peer->records.end());
  }
  sort_records(records);

  struct NoTrace final : TraceSink {
    void record(const TraceRecord&) override {}
  } no_trace;
  SimWorld rates(s.scenario, end.models, {}, no_trace);
  try {
    return summarise(s.scenario, strategy, plans, records, end.places, rates, trace);
  } catch (const std::logic_error& error) {
    // Each record was looked at; together they may still tell what cannot have been.
    throw PeerError(fmt::format("the records of the roles do not fit together: {}", error.what()));
  }
}

void DecodeRole::breathe() const {
  for (const auto& peer : state_->peers) peer->session->breathe();
}

void DecodeRole::close() {
  State& s = *state_;
  s.closed = true;
  for (const auto& peer : s.peers) peer->session->part();
}

std::vector<PeerPath> DecodeRole::paths() const {
  std::vector<PeerPath> paths;
  for (const auto& peer : state_->peers) {
    paths.push_back({peer->address, peer->wire.transport,
                     static_cast<double>(peer->clock.error_ns) / 1e3,
                     static_cast<double>(peer->clock.round_trip_ns) / 1e3});
  }
  return paths;
}

std::string DecodeRole::compute() const { return to_string(state_->compute); }
std::int64_t DecodeRole::verified_bytes() const { return state_->end.verified_bytes; }

}  // namespace kvlane::live
