#include "calibrate/live/link/link_role.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <random>

#include "calibrate/live/memory/pattern.h"
#include "calibrate/live/role/role.h"
#include "calibrate/live/role/run_frames.h"
#include "calibrate/live/session/handshake.h"
#include "calibrate/live/socket/dial.h"
#include "sim/base/check.h"

namespace kvlane::live {
namespace {

constexpr Duration kSpin = std::chrono::microseconds(20);
constexpr Duration kForever = std::chrono::hours(24);
constexpr RegionId kRegion{0};
constexpr EndpointId kActive{0}, kPassive{1};
constexpr std::int64_t kPush = 1 << 20;  // bytes of a background write
constexpr int kPings = 64;
constexpr std::uint64_t kSeed = 77;
constexpr std::int64_t kMostNs = std::int64_t{1} << 62U;

enum class Command : std::uint8_t { background, usage, ended, last = ended };

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::int64_t zero_ns(const WallLoop& loop) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(loop.zero().time_since_epoch())
      .count();
}

Config link_config(const LinkOptions& link) {
  return {{"task", "calibrate link"},
          {"working_set", fmt::format("{}", link.working_set)},
          {"queues", fmt::format("{}", link.queues)}};
}

struct Listening final : Inspector, MessageHandler {
  std::string problem(EndpointId, const Message&) override { return {}; }
  void arrived(EndpointId, const Message&) override {}
  void fetched(std::span<const Fragment>) override {}
  void on_message(EndpointId, const Message&) override {}
};

// What both ends are made of.
struct LinkEnd {
  LinkEnd(WallLoop& l, EndpointId self, const LiveOptions& options, const LinkOptions& link)
      : loop(l),
        pool(static_cast<std::size_t>(link.working_set) + 4096),
        regions(pool),
        transport(loop, self, regions, {options.timeout}) {
    transport.on_failure([this](EndpointId, const std::string& reason) { fail(reason); });
    KVLANE_CHECK(regions.create(kRegion, link.working_set), "no room for the working set");
    fill_pattern(kSeed, 0, regions.bytes_of(kRegion));
    place = regions.expose(kRegion);
    transport.begin_run(nullptr, &listening);
    transport.set_handler(self, &listening);
  }
  ~LinkEnd() { transport.close(); }
  void fail(const std::string& reason) {
    if (failure.empty()) failure = reason;
    loop.stop();
  }
  void check() const {
    if (!failure.empty()) throw PeerError(failure);
  }

  WallLoop& loop;
  Pool pool;
  RegionTable regions;
  LiveTransport transport;
  Listening listening;
  RegionPlace place;
  std::string failure;
};

// Offsets of pieces, in an order that does not follow memory, round and round.
class Scatter {
 public:
  Scatter(std::int64_t working_set, std::int64_t piece)
      : piece_(piece),
        slots_(std::max<std::int64_t>(1, working_set / std::max<std::int64_t>(1, piece))) {
    step_ = std::max<std::int64_t>(1, slots_ * 618 / 1000);
    while (std::gcd(step_, slots_) != 1) --step_;
  }
  std::int64_t next() {
    at_ = (at_ + step_) % slots_;
    return at_ * piece_;
  }

 private:
  std::int64_t piece_, slots_, step_ = 1, at_ = 0;
};

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

// Background writes of the passive end.
struct Pusher {
  LinkEnd& end;
  std::int64_t in_flight_limit = 0, in_flight = 0;
  Scatter scatter;

  void fill() {
    while (in_flight + kPush <= in_flight_limit) {
      const Fragment piece{kRegion, scatter.next(), kPush};
      TransferSpec spec;
      spec.op = TransferOp::write;
      spec.lane = Lane::speculative;
      spec.poster = kPassive;
      spec.peer = kActive;
      spec.bytes = Bytes(kPush);
      spec.fragments = {&piece, 1};
      in_flight += kPush;
      end.transport.post(spec, {[](void* self, std::uint64_t status) {
                                  auto& pusher = *static_cast<Pusher*>(self);
                                  pusher.in_flight -= kPush;
                                  if (status == 0) pusher.fill();
                                },
                                this, 0});
    }
  }
};

}  // namespace

void run_link_passive(const LiveOptions& options, const LinkOptions& link,
                      const SocketAddress& listen, const Say& say) {
  if (!listen.is_loopback() && options.secret.empty()) {
    throw OptionError(
        fmt::format("--listen {}: no secret; expected --secret-file FILE or "
                    "KVLANE_SECRET, the same on both hosts",
                    listen.text()));
  }
  pin_to(options.processors);
  WallLoop loop(kSpin);
  Listener listener(loop, listen);
  LinkEnd end(loop, kPassive, options, link);
  say("listening " + listener.address().text());
  int fd = -1;
  listener.on_session([&](int socket, const Hello&) {
    if (fd >= 0) {
      ::close(socket);
      return;
    }
    fd = socket;
    loop.stop();
  });
  loop.hold();
  while (fd < 0) loop.run();
  Session session(loop, fd, {options.lease, "the measuring end at " + peer_address(fd).text()});
  session.on_turn([&] { end.check(); });
  shake_hands_passive(session, {options.secret, options.version}, link_config(link), {},
                      options.connect);
  ConnectionOptions connection;
  connection.queues = link.queues;
  connection.checksum = options.checksum;
  session.send(FrameKind::prepared, encode_places({&end.place, 1}));
  const auto theirs = decode_places(session.wait(FrameKind::prepared, options.connect), 1);
  if (!theirs || theirs->size() != 1 || theirs->front().length < link.working_set) {
    throw PeerError(session.peer() + " sent a region that is none");
  }
  end.transport.remote_of(kActive).set(theirs->front());
  const Wire wire = wire_up_passive(
      session, {loop, end.pool, end.regions, end.transport, kActive, connection, options},
      listener);
  session.on_end([&](const std::string& reason) { end.fail(session.peer() + " " + reason); });
  Pusher pusher{end, 0, 0, Scatter(link.working_set, kPush)};
  bool over = false;
  session.take_up(FrameKind::start, [&](std::span<const std::byte> body) {
    Reader in(body);
    const Command command = in.get_enum(Command::last);
    const auto value = in.get<std::int64_t>();
    if (!in.done() || value < 0 || value > link.working_set) {
      return end.fail(session.peer() + " sent a command that is none");
    }
    if (command == Command::background) {
      pusher.in_flight_limit = value;
      pusher.fill();
    }
    std::vector<std::byte> answer;
    Writer out(answer);
    out.put(cpu_seconds());
    out.put(zero_ns(loop));
    session.send(FrameKind::run_done, answer);
  });
  session.take_up(FrameKind::bye, [&](std::span<const std::byte>) {
    over = true;
    loop.stop();
  });
  while (!over) {
    end.check();
    loop.run();
  }
  session.on_end(nullptr);
  session.close();
  end.transport.close();
}

struct LinkProbe::State {
  State(const LiveOptions& o, const LinkOptions& l)
      : options(o), link(l), end(loop, kActive, o, l) {}
  double command(Command what, std::int64_t value) {
    std::vector<std::byte> body;
    Writer out(body);
    out.put(what);
    out.put(value);
    session->send(FrameKind::start, body);
    const std::vector<std::byte> answer = session->wait(FrameKind::run_done, options.connect);
    Reader in(answer);
    const auto cpu = in.get<double>();
    const auto peer_zero = in.get<std::int64_t>();
    if (!in.done() || peer_zero < 0 || peer_zero > kMostNs) {
      throw PeerError(session->peer() + " answered a command with something else");
    }
    end.transport.set_clock(
        kPassive, std::chrono::nanoseconds(peer_zero - clock.peer_minus_own_ns - zero_ns(loop)));
    return cpu;
  }

  const LiveOptions& options;
  LinkOptions link;
  WallLoop loop{kSpin};
  LinkEnd end;
  std::unique_ptr<Session> session;
  Wire wire;
  Session::ClockOffset clock;
  double connect_seconds = 0;
};

LinkProbe::LinkProbe(const LiveOptions& options, const LinkOptions& link, const SocketAddress& peer,
                     const Say&) {
  pin_to(options.processors);
  state_ = std::make_unique<State>(options, link);
  State& s = *state_;
  const std::int64_t from = steady_ns();
  s.session = std::make_unique<Session>(s.loop, dial(peer, {}, options.connect),
                                        Session::Options{options.lease, peer.text()});
  Session& session = *s.session;
  session.on_turn([&s] { s.end.check(); });
  shake_hands_active(session, {options.secret, options.version}, link_config(link),
                     options.connect);
  session.send(FrameKind::prepared, encode_places({&s.end.place, 1}));
  const auto theirs = decode_places(session.wait(FrameKind::prepared, options.connect), 1);
  if (!theirs || theirs->size() != 1 || theirs->front().length < link.working_set) {
    throw PeerError(session.peer() + " sent a region that is none");
  }
  s.end.transport.remote_of(kPassive).set(theirs->front());
  ConnectionOptions connection;
  connection.queues = link.queues;
  connection.checksum = options.checksum;
  s.wire = wire_up_active(
      session, {s.loop, s.end.pool, s.end.regions, s.end.transport, kPassive, connection, options},
      peer);
  s.connect_seconds = static_cast<double>(steady_ns() - from) * 1e-9;
  session.on_end([&s](const std::string& reason) { s.end.fail(s.session->peer() + " " + reason); });
  s.clock = session.measure_clock(kPings, options.connect);
}

LinkProbe::~LinkProbe() = default;

namespace {

// One measurement: posts, keeps `depth` in flight, notes times.
struct Meter final : TraceSink {
  Meter(LinkEnd& e, const LinkLoad& l, std::int64_t working_set)
      : end(e),
        load(l),
        scatter(working_set, load.bytes / load.fragments * (load.fragments > 1 ? 2 : 1)) {}

  void record(const TraceRecord& r) override { last_end = r.end; }

  void post() {
    const std::int64_t piece = load.bytes / load.fragments;
    pieces.clear();
    for (std::int64_t i = 0; i < load.fragments && load.bytes > 0; ++i) {
      pieces.push_back({kRegion, scatter.next(), piece});
    }
    std::sort(pieces.begin(), pieces.end(),
              [](const Fragment& a, const Fragment& b) { return a.offset < b.offset; });
    TransferSpec spec;
    spec.op = load.op;
    spec.lane = load.lane;
    spec.poster = kActive;
    spec.peer = kPassive;
    spec.queue = static_cast<std::uint32_t>(posted % load.queues);
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
    if (status != 0) return;
    const TimePoint now = end.loop.clock();
    ++done;
    if (now >= counting_from) {
      if (counted == 0 && first_counted == TimePoint{}) first_counted = now;
      latency_us.push_back(to_seconds(now - slot.begin) * 1e6);
      visible_us.push_back(std::max(0.0, to_seconds(last_end - slot.begin) * 1e6));
      ++counted;
      last_counted = now;
    }
    if (now < until || counted < load.least_count) {
      post();
    } else if (done == posted) {
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
  TimePoint counting_from{}, until{}, first_counted{}, last_counted{}, last_end{};
  Duration post_time{0};
  std::int64_t posted = 0, done = 0, counted = 0;
};

}  // namespace

LinkSample LinkProbe::measure(const LinkLoad& load) {
  State& s = *state_;
  KVLANE_CHECK(load.fragments >= 1 && load.bytes / load.fragments * load.fragments == load.bytes,
               "{} bytes in {} fragments", load.bytes, load.fragments);
  Meter meter(s.end, load, s.link.working_set);
  s.end.transport.begin_run(&meter, &s.end.listening);
  const double peer_before = s.command(Command::usage, 0);
  const double own_before = cpu_seconds();
  const TimePoint start = s.loop.clock();
  meter.counting_from = later(start, seconds_to_duration(load.warm_up_seconds));
  meter.until = later(meter.counting_from, seconds_to_duration(load.seconds));
  for (int i = 0; i < load.depth; ++i) meter.post();
  s.loop.hold();
  while (meter.done < meter.posted || meter.counted < load.least_count) {
    s.end.check();
    s.loop.run();
  }
  s.loop.release();
  const double own = cpu_seconds() - own_before;
  const double peer = s.command(Command::usage, 0) - peer_before;
  s.end.transport.begin_run(nullptr, &s.end.listening);

  LinkSample sample;
  sample.load = load;
  sample.operations = meter.counted;
  sample.seconds = to_seconds(meter.last_counted - meter.first_counted);
  const auto between = static_cast<double>(meter.counted - 1);
  if (sample.seconds > 0) {
    sample.operations_per_s = between / sample.seconds;
    sample.rate_GBps = sample.operations_per_s * static_cast<double>(load.bytes) / 1e9;
  }
  sample.latency = latency_of(meter.latency_us);
  sample.visible = latency_of(meter.visible_us);
  const double moved = static_cast<double>(meter.done) * static_cast<double>(load.bytes) / 1e9;
  if (moved > 0) sample.cpu_s_per_GB = (own + peer) / moved;
  sample.post_us = to_seconds(meter.post_time) * 1e6 / static_cast<double>(meter.posted);
  return sample;
}

void LinkProbe::background(std::int64_t bytes_in_flight) {
  state_->command(Command::background, bytes_in_flight);
}

void LinkProbe::verify() {
  State& s = *state_;
  LinkLoad load;
  load.seconds = 0;
  load.warm_up_seconds = 0;
  load.least_count = 4;
  load.bytes = 1 << 20;
  load.fragments = 256;
  measure(load);
  // What was written lies there as it lay here; read back over zeros it must be the pattern.
  const std::span<std::byte> mine = s.end.regions.bytes_of(kRegion);
  std::ranges::fill(mine.first(std::size_t{4} << 20U), std::byte{0});
  const Fragment whole{kRegion, 0, 4 << 20};
  TransferSpec spec;
  spec.op = TransferOp::read;
  spec.lane = Lane::on_demand;
  spec.poster = kActive;
  spec.peer = kPassive;
  spec.bytes = Bytes(whole.length);
  spec.fragments = {&whole, 1};
  struct Done {
    WallLoop* loop;
    bool done;
  } done{&s.loop, false};
  s.end.transport.post(spec, {[](void* context, std::uint64_t) {
                                static_cast<Done*>(context)->done = true;
                                static_cast<Done*>(context)->loop->stop();
                              },
                              &done, 0});
  s.loop.hold();
  while (!done.done) {
    s.end.check();
    s.loop.run();
  }
  s.loop.release();
  const std::int64_t wrong = wrong_bytes(kSeed, 0, mine.first(std::size_t{4} << 20U));
  if (wrong > 0) throw RunError(fmt::format("{} of 4194304 bytes came back wrong", wrong));
}

void LinkProbe::close() {
  State& s = *state_;
  s.session->on_end(nullptr);
  s.session->send(FrameKind::bye);
  s.session->close();
  s.end.transport.close();
}

std::string LinkProbe::transport() const { return state_->wire.transport; }
double LinkProbe::clock_error_us() const {
  return static_cast<double>(state_->clock.error_ns) / 1e3;
}
double LinkProbe::connect_seconds() const { return state_->connect_seconds; }

}  // namespace kvlane::live
