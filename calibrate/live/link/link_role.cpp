#include "calibrate/live/link/link_role.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>

#include "calibrate/live/link/link_end.h"
#include "calibrate/live/link/neighbour.h"
#include "calibrate/live/memory/pattern.h"
#include "calibrate/live/role/choice.h"
#include "calibrate/live/role/role.h"
#include "calibrate/live/socket/dial.h"
#include "sim/base/check.h"

namespace kvlane::live {
namespace {

constexpr int kPings = 64;
constexpr std::int64_t kMostNs = std::int64_t{1} << 62U;
constexpr std::int64_t kMostErrors = 16;  // of one measurement, then it ends
constexpr double kPatience = 4;           // times `seconds`: then three operations are enough
constexpr std::int64_t kVerifyBytes = 16 << 20;  // about so many a row

LatencyUs latency_of(std::vector<double> us) {
  LatencyUs l;
  if (us.empty()) return l;
  std::sort(us.begin(), us.end());
  const auto rank = [&](double q) {
    const auto n = static_cast<double>(us.size());
    return us[static_cast<std::size_t>(std::clamp(std::ceil(q * n), 1.0, n)) - 1];
  };
  l.min = us.front();
  l.p50 = rank(0.5);
  l.p90 = rank(0.9);
  l.p99 = rank(0.99);
  l.p999 = rank(0.999);
  l.max = us.back();
  double sum = 0;
  for (const double v : us) sum += v;
  l.mean = sum / static_cast<double>(us.size());
  double squares = 0;
  for (const double v : us) squares += (v - l.mean) * (v - l.mean);
  l.stdev = std::sqrt(squares / static_cast<double>(us.size()));
  return l;
}

}  // namespace

const char* to_string(VisibleFrom from) {
  static constexpr const char* kNames[] = {"own_clock", "aligned_clocks", "half_round_trip"};
  return kNames[static_cast<std::size_t>(from)];
}

struct LinkProbe::State {
  State(const LiveOptions& o, const LinkOptions& l) : options(o), end(loop, kActiveEnd, o, l) {}

  double command(LinkCommand what, std::int64_t value) {
    std::vector<std::byte> body;
    Writer out(body);
    out.put(what);
    out.put(value);
    session->send(FrameKind::start, body);
    const std::vector<std::byte> answer = session->wait(FrameKind::run_done, options.connect);
    Reader in(answer);
    const auto cpu = in.get<double>();
    peer_done = in.get<std::uint64_t>();
    const auto peer_zero = in.get<std::int64_t>();
    const std::string host = in.get_text(256);
    if (!in.done() || !(cpu >= 0) || !std::isfinite(cpu) || peer_zero < 0 || peer_zero > kMostNs) {
      throw PeerError(session->peer() + " answered a command with something else");
    }
    if (!host_known) {
      host_known = true;
      same_host = host == host_identity();
      // One boot of one host has one steady clock, except between time namespaces.
      if (same_host && std::abs(clock.peer_minus_own_ns) <= clock.error_ns) {
        clock.peer_minus_own_ns = clock.error_ns = 0;
      }
    }
    end.transport.set_clock(
        kPassiveEnd, std::chrono::nanoseconds(peer_zero - clock.peer_minus_own_ns - zero_ns(loop)));
    return cpu;
  }
  // Runs the loop until `over`.
  void run_until(const bool& over) {
    loop.hold();
    while (!over) {
      end.check();
      loop.run();
    }
    loop.release();
    end.check();
  }
  void transfer(TransferOp op, const LinkLoad& load, std::span<const Fragment> pieces,
                std::int64_t bytes);

  const LiveOptions options;
  WallLoop loop{kLinkSpin};
  LinkEnd end;
  std::unique_ptr<Session> session;
  Nics nics;
  Wire wire;
  Session::ClockOffset clock;
  SocketAddress own_address;
  std::uint64_t verifications = 0;
  double connect_seconds = 0;
  std::uint64_t peer_done = 0;  // by its neighbour, at the last command
  bool host_known = false, same_host = false;
};

LinkProbe::LinkProbe(const LiveOptions& options, const LinkOptions& link, const SocketAddress& peer,
                     const Say& say) {
  pin_to(options.processors);
  abilities(options);
  state_ = std::make_unique<State>(options, link);
  State& s = *state_;
  const std::int64_t from = steady_ns();
  s.session = std::make_unique<Session>(s.loop, dial(peer, {}, options.connect, say),
                                        Session::Options{options.lease, peer.text()});
  Session& session = *s.session;
  s.own_address = local_address(session.fd());
  session.on_turn([&s] { s.end.check(); });
  const Config config = {{"task", "calibrate link"},
                         {"--checksum", options.checksum ? "yes" : "no"},
                         {kWorkingSetKey, fmt::format("{}", link.working_set)},
                         {kQueuesKey, fmt::format("{}", link.queues)}};
  shake_hands_active(session, {options.secret, options.version}, config, options.connect);
  // Meanwhile the peer fills its memory, which is no part of connecting.
  const std::int64_t filling = steady_ns();
  s.end.exchange_places(session, kPassiveEnd, options.connect);
  const std::int64_t filled = steady_ns();
  ConnectionOptions connection;
  connection.queues = link.queues;
  connection.checksum = options.checksum;
  s.wire = wire_up_active(session,
                          {s.loop, s.end.pool, s.end.regions, s.end.transport, kPassiveEnd,
                           connection, s.options, s.nics},
                          peer);
  s.connect_seconds = static_cast<double>(steady_ns() - filled + filling - from) * 1e-9;
  session.on_end([&s](const std::string& reason) { s.end.fail(s.session->peer() + " " + reason); });
  s.clock = session.measure_clock(kPings, options.connect);
  s.command(LinkCommand::usage, 0);
}

LinkProbe::~LinkProbe() = default;

namespace {

// One measurement: posts, keeps `depth` in flight, notes times.
struct Meter final : TraceSink {
  Meter(LinkEnd& e, const LinkLoad& l)
      : end(e),
        load(l),
        // With a gap behind each piece: neighbours would be one run.
        scatter(e.link.working_set, l.bytes / l.fragments * (l.fragments > 1 ? 2 : 1)) {
    const TimePoint start = end.loop.clock();
    window_from = start;
    counting_from = later(start, seconds_to_duration(load.warm_up_seconds));
    until = later(counting_from, seconds_to_duration(load.seconds));
    patience = load.seconds > 0
                   ? later(counting_from, seconds_to_duration(kPatience * load.seconds))
                   : kNever;
  }

  void record(const TraceRecord& r) override { last_end = r.end; }

  void post() {
    const std::int64_t piece = load.bytes / load.fragments;
    pieces.clear();
    for (std::int64_t i = 0; i < load.fragments && load.bytes > 0; ++i) {
      pieces.push_back({kLinkRegion, scatter.next(), piece});
    }
    std::sort(pieces.begin(), pieces.end(),
              [](const Fragment& a, const Fragment& b) { return a.offset < b.offset; });
    TransferSpec spec;
    spec.op = load.op;
    spec.lane = load.lanes == 1 ? load.lane : static_cast<Lane>(1 + posted % load.lanes);
    spec.poster = kActiveEnd;
    spec.peer = kPassiveEnd;
    spec.queue = static_cast<std::uint32_t>(posted / load.lanes % load.queues);
    spec.bytes = Bytes(load.bytes);
    spec.fragments = pieces;
    Slot& slot = free_slot();
    slot.begin = end.loop.clock();
    end.transport.post(spec, {[](void* context, std::uint64_t status) {
                                auto& ended = *static_cast<Slot*>(context);
                                ended.meter->completed(ended, status);
                              },
                              &slot, 0});
    post_time += end.loop.clock() - slot.begin;
    ++posted;
  }

  struct Slot {
    Meter* meter = nullptr;
    TimePoint begin{};
  };
  Slot& free_slot() {
    if (free.empty()) {
      slots.push_back({this, {}});
      free.push_back(&slots.back());
    }
    Slot* slot = free.back();
    free.pop_back();
    return *slot;
  }

  void completed(Slot& slot, std::uint64_t status) {
    free.push_back(&slot);
    const TimePoint now = end.loop.clock();
    ++done;
    if (status != 0) {
      ++errors;
    } else if (now >= counting_from) {
      latency_us.push_back(to_seconds(now - slot.begin) * 1e6);
      visible_us.push_back(std::max(0.0, to_seconds(last_end - slot.begin) * 1e6));
      last_counted = now;
    } else {
      window_from = now;
    }
    const auto counted = static_cast<std::int64_t>(latency_us.size());
    const bool enough = (now >= until && counted >= load.least_count) ||
                        (now >= patience && counted >= std::min<std::int64_t>(3, load.least_count));
    if (!enough && errors < kMostErrors) {
      if (load.rest_seconds == 0) return post();
      end.loop.schedule_after(
          seconds_to_duration(load.rest_seconds),
          {[](void* self, std::uint64_t) { static_cast<Meter*>(self)->post(); }, this, 0});
    } else if (done == posted) {
      over = true;
      end.loop.stop();
    }
  }

  LinkEnd& end;
  LinkLoad load;
  Scatter scatter;
  std::vector<Fragment> pieces;
  std::deque<Slot> slots;
  std::vector<Slot*> free;
  std::vector<double> latency_us, visible_us;
  TimePoint counting_from{}, until{}, patience{}, window_from{}, last_counted{}, last_end{};
  Duration post_time{0};
  std::int64_t posted = 0, done = 0, errors = 0;
  bool over = false;
};

void halve(LatencyUs& l) {
  for (double* v : {&l.min, &l.p50, &l.p90, &l.p99, &l.p999, &l.max, &l.mean, &l.stdev}) *v /= 2;
}

}  // namespace

LinkSample LinkProbe::measure(const LinkLoad& load) {
  State& s = *state_;
  KVLANE_CHECK(load.fragments >= 1 && load.bytes / load.fragments * load.fragments == load.bytes &&
                   load.bytes * (load.fragments > 1 ? 2 : 1) <= s.end.link.working_set,
               "{} bytes in {} fragments", load.bytes, load.fragments);
  const double peer_before = s.command(LinkCommand::usage, 0);
  const double own_before = process_cpu_seconds();
  Meter meter(s.end, load);
  s.end.transport.begin_run(&meter, &s.end.no_messages);
  for (int i = 0; i < load.depth; ++i) meter.post();
  s.run_until(meter.over);
  s.end.transport.begin_run(nullptr, &s.end.no_messages);
  const double own = process_cpu_seconds() - own_before;
  const double peer = s.command(LinkCommand::usage, 0) - peer_before;

  LinkSample sample;
  sample.load = load;
  sample.operations = static_cast<std::int64_t>(meter.latency_us.size());
  sample.errors = meter.errors;
  const auto counted = static_cast<double>(sample.operations);
  if (counted > 0) sample.seconds = to_seconds(meter.last_counted - meter.window_from);
  if (sample.seconds > 0) {
    sample.operations_per_s = counted / sample.seconds;
    sample.rate_GBps = sample.operations_per_s * static_cast<double>(load.bytes) / 1e9;
  }
  sample.latency = latency_of(meter.latency_us);
  if (load.op == TransferOp::read) {
    sample.visible = sample.latency;
  } else {
    sample.visible = latency_of(meter.visible_us);
    // A NIC tells the sender when the peer's has the bytes, not when they could be seen there.
    const bool silent = transport() == "rdma";
    if (s.clock.error_ns > 0 || silent) {
      // An error as large as what it is to tell tells nothing.
      const bool told = !silent && clock_error_us() < sample.visible.p50 / 10;
      sample.visible_from = told ? VisibleFrom::aligned_clocks : VisibleFrom::half_round_trip;
      if (!told) {
        sample.visible = sample.latency;
        halve(sample.visible);
      }
    }
  }
  const auto done = static_cast<double>(meter.done - meter.errors);
  const double moved = done * static_cast<double>(load.bytes) / 1e9;
  if (moved > 0) sample.cpu_s_per_GB = (own + peer) / moved;
  sample.post_us = to_seconds(meter.post_time) * 1e6 / static_cast<double>(meter.posted);
  return sample;
}

void LinkProbe::background(std::int64_t bytes_in_flight, Lane lane) {
  state_->command(lane == Lane::proactive ? LinkCommand::push : LinkCommand::background,
                  bytes_in_flight);
}

LinkProbe::CpuCost LinkProbe::cpu_cost(const LinkLoad& load) {
  State& s = *state_;
  struct Seen {
    double own = 0, peer = 0, at = 0;
  };
  const Neighbour neighbour;
  const auto look = [&] {
    s.command(LinkCommand::usage, 0);
    return Seen{static_cast<double>(neighbour.done()), static_cast<double>(s.peer_done),
                to_seconds(s.loop.clock().time_since_epoch())};
  };
  s.loop.set_spin(Duration::zero());
  s.command(LinkCommand::neighbour, 1);
  const Seen first = look();
  bool over = false;
  struct Pause {
    WallLoop& loop;
    bool& over;
  } pause{s.loop, over};
  s.loop.schedule_at(later(s.loop.clock(), seconds_to_duration(load.seconds)),
                     {[](void* p, std::uint64_t) {
                        static_cast<Pause*>(p)->over = true;
                        static_cast<Pause*>(p)->loop.stop();
                      },
                      &pause, 0});
  s.run_until(over);
  const Seen idle = look();
  const LinkSample sample = measure(load);
  const Seen busy = look();
  s.command(LinkCommand::neighbour, 0);
  s.loop.set_spin(kLinkSpin);
  const auto lost = [&](double Seen::*done) {
    const double alone = (idle.*done - first.*done) / (idle.at - first.at);
    const double beside = (busy.*done - idle.*done) / (busy.at - idle.at);
    const double rate = sample.rate_GBps * 1e9;
    return alone > 0 && rate > 0 ? std::max(0.0, 1 - beside / alone) / rate : 0;
  };
  return {lost(&Seen::own), lost(&Seen::peer)};
}

void LinkProbe::set_line(Bandwidth payload) {
  state_->end.transport.set_line(kPassiveEnd, payload);
  state_->command(LinkCommand::line, payload.bits_per_sec());
}

void LinkProbe::State::transfer(TransferOp op, const LinkLoad& load,
                                std::span<const Fragment> pieces, std::int64_t bytes) {
  TransferSpec spec;
  spec.op = op;
  spec.lane = load.lane;
  spec.poster = kActiveEnd;
  spec.peer = kPassiveEnd;
  spec.queue = static_cast<std::uint32_t>(verifications) % load.queues;
  spec.bytes = Bytes(bytes);
  spec.fragments = pieces;
  struct Done {
    WallLoop* loop;
    bool over;
    std::uint64_t status;
  } done{&loop, false, 0};
  end.transport.post(spec, {[](void* context, std::uint64_t status) {
                              auto& it = *static_cast<Done*>(context);
                              it.over = true;
                              it.status = status;
                              it.loop->stop();
                            },
                            &done, 0});
  run_until(done.over);
  if (done.status != 0) {
    throw RunError(fmt::format("a {} of {} bytes to be verified failed",
                               op == TransferOp::read ? "read" : "write", bytes));
  }
}

// Fresh bytes go there, are wiped out here, and come back.
std::int64_t LinkProbe::verify(const LinkLoad& load) {
  State& s = *state_;
  const std::span<std::byte> mine = s.end.regions.bytes_of(kLinkRegion);
  const std::int64_t piece = load.bytes / load.fragments;
  Scatter scatter(s.end.link.working_set, piece * (load.fragments > 1 ? 2 : 1));
  std::int64_t seen = 0;
  while (seen == 0 || seen < std::min(kVerifyBytes, 4 * load.bytes)) {
    const std::uint64_t seed = 1000 + ++s.verifications;
    std::vector<Fragment> pieces;
    for (std::int64_t i = 0; i < load.fragments; ++i) {
      pieces.push_back({kLinkRegion, scatter.next(), piece});
    }
    std::sort(pieces.begin(), pieces.end(),
              [](const Fragment& a, const Fragment& b) { return a.offset < b.offset; });
    const auto bytes_at = [&](const Fragment& f) {
      return mine.subspan(static_cast<std::size_t>(f.offset), static_cast<std::size_t>(f.length));
    };
    for (const Fragment& f : pieces) fill_pattern(seed, f.offset, bytes_at(f));
    s.transfer(TransferOp::write, load, pieces, load.bytes);
    for (const Fragment& f : pieces) std::ranges::fill(bytes_at(f), std::byte{0});
    s.transfer(TransferOp::read, load, pieces, load.bytes);
    std::int64_t wrong = 0;
    for (const Fragment& f : pieces) wrong += wrong_bytes(seed, f.offset, bytes_at(f));
    if (wrong > 0) {
      throw RunError(fmt::format("{} of {} bytes in {} pieces came back wrong", wrong, load.bytes,
                                 load.fragments));
    }
    seen += load.bytes;
  }
  return seen;
}

void LinkProbe::close() {
  State& s = *state_;
  s.session->part();
  s.end.transport.close();
}

std::string LinkProbe::transport() const { return state_->wire.transport; }
TransportLimits LinkProbe::limits() const { return state_->end.transport.limits(kPassiveEnd); }
SocketAddress LinkProbe::own_address() const { return state_->own_address; }
bool LinkProbe::same_host() const { return state_->same_host; }
double LinkProbe::clock_error_us() const {
  return static_cast<double>(state_->clock.error_ns) / 1e3;
}
double LinkProbe::connect_seconds() const { return state_->connect_seconds; }

}  // namespace kvlane::live
