#include "calibrate/live/role/prefill_role.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <thread>

#include "calibrate/live/role/choice.h"
#include "calibrate/live/role/role.h"
#include "calibrate/live/role/run_frames.h"
#include "calibrate/live/role/wire_up.h"
#include "calibrate/live/session/door.h"
#include "sim/base/check.h"

namespace kvlane::live {
namespace {

constexpr Duration kForever = std::chrono::hours(24 * 30);
constexpr std::int64_t kMostShiftNs = 30LL * 24 * 3600 * 1'000'000'000;
constexpr std::int64_t kMostAheadNs = 60LL * 1'000'000'000;
constexpr std::size_t kRecordsAFrame = 100'000;

std::string value_of(const Config& config, const std::string& name) {
  for (const auto& [key, value] : config) {
    if (key == name) return value;
  }
  return {};
}

class PrefillRole {
 public:
  PrefillRole(const Scenario& scenario, const LiveOptions& options, const SocketAddress& listen,
              const Say& say)
      : scenario_(scenario),
        options_(options),
        say_(say),
        compute_(choose_compute(options)),
        places_(places_of(scenario)),
        listener_(loop_, listen) {
    pin_to(options.processors);
  }

  void serve() {
    say_("listening " + listener_.address().text());
    while (!admit()) {
    }
    try {
      connect();
      while (one_run()) {
      }
    } catch (const std::exception& error) {
      // The peer should know why, too.
      session_->send_text(FrameKind::abort, error.what());
      session_->close();
      throw;
    }
    session_->close();
  }

 private:
  // True when somebody is in. Who does not know the secret or has another scenario is refused with
  // a line, and the door stays open; but one that differs in what it was started with will not
  // come back otherwise, so that its refusal ends this role too.
  bool admit() {
    const int fd = door_.next();
    Session::Options session_options;
    session_options.lease = options_.lease;
    session_options.peer = "decode at " + peer_address(fd).text();
    session_ = std::make_unique<Session>(loop_, fd, session_options);
    const Identity identity{options_.secret, options_.version};
    try {
      given_ = shake_hands_passive(*session_, identity, config_of(scenario_, compute_, options_),
                                   {"instance", "host"}, std::min(options_.connect, kAtTheDoor));
    } catch (const PeerError& error) {
      if (session_->trusted()) throw;
      say_(error.what());
      session_.reset();
      return false;
    }
    door_.close();
    const std::string instance = value_of(given_, "instance");
    std::size_t number = 0;
    const auto [end, problem] =
        std::from_chars(instance.data(), instance.data() + instance.size(), number);
    if (problem != std::errc() || end != instance.data() + instance.size() ||
        number >= places_.prefills.size()) {
      throw PeerError(fmt::format("{} calls this prefill instance {} of {}", session_->peer(),
                                  instance, places_.prefills.size()));
    }
    here_ = places_.prefills[number];
    return true;
  }

  void connect() {
    build_end();
    end_->breathe = [this] { session_->breathe(); };
    end_->peer_names[places_.decode.index()] = session_->peer();
    ConnectionOptions connection;
    connection.queues = places_.queues;
    connection.checksum = options_.checksum;
    wire_ = wire_up_passive(*session_,
                            {loop_, *end_->pool, *end_->regions, *end_->transport, places_.decode,
                             connection, options_, nics_},
                            listener_);
    end_->transport->set_line(places_.decode, line_between(scenario_, places_, here_));
    session_->on_end([this](const std::string& reason) {
      end_->fail(fmt::format("{} {}", session_->peer(), reason));
    });
    session_->take_up(FrameKind::run_end, [this](std::span<const std::byte>) {
      run_over_ = true;
      loop_.stop();
    });
    session_->take_up(FrameKind::prefill_ended, [this](std::span<const std::byte> body) {
      Reader in(body);
      const RequestId request(in.get<std::uint32_t>());
      if (!running_) return;
      if (!in.done() || request.index() >= end_->plans().size() ||
          end_->deployment().prefill_of(request) == here_) {
        return end_->fail(session_->peer() + " told of a prefill that is none of another");
      }
      end_->deployment().router().prefill_ended_elsewhere(request);
    });
    end_->push_failed = [this](RequestId request, const std::string& reason) {
      std::vector<std::byte> told;
      Writer out(told);
      out.put(request.value());
      out.put_text(reason.substr(0, 1024));
      session_->send(FrameKind::push_fail, told);
    };
  }

  // Weights and KV of real kernels take seconds to fill; heartbeats go on meanwhile.
  void build_end() {
    std::exception_ptr problem;
    std::atomic<bool> built{false};
    std::thread builder([&] {
      try {
        end_ = std::make_unique<RoleEnd>(loop_, scenario_, options_, compute_, here_);
      } catch (...) {
        problem = std::current_exception();
      }
      built = true;
      loop_.wake({[](void* l, std::uint64_t) { static_cast<WallLoop*>(l)->stop(); }, &loop_, 0});
    });
    loop_.hold();
    while (!built) loop_.run();
    loop_.release();
    builder.join();
    if (problem) std::rethrow_exception(problem);
  }

  // False: the peer said goodbye.
  bool one_run() {
    bool over = false;
    session_->take_up(FrameKind::bye, [&](std::span<const std::byte>) {
      over = true;
      session_->close();
      loop_.stop();
    });
    std::vector<std::byte> body;
    try {
      body = session_->wait(FrameKind::prepare, kForever);
    } catch (const PeerError&) {
      if (over) return false;
      throw;
    }
    const std::optional<RunNumber> number = decode_prepare(body);
    if (!number || number->strategy >= scenario_.strategies.size() ||
        number->seed >= static_cast<std::uint64_t>(scenario_.seeds)) {
      throw PeerError(session_->peer() + " asked for a run that this scenario has not got");
    }
    run_over_ = false;
    const std::vector<RegionPlace> places = end_->prepare(*number);
    session_->send(FrameKind::prepared, encode_places(places));
    const std::optional<StartFrame> start =
        decode_start(session_->wait(FrameKind::start, options_.connect), end_->plans().size());
    if (!start || start->places.size() != places.size()) {
      throw PeerError(session_->peer() + " sent a start that is none");
    }
    RemoteRegions& remote = end_->transport->remote_of(places_.decode);
    remote.clear();
    for (const RegionPlace& place : start->places) {
      if (place.length < end_->plans()[place.region.index()].region_bytes) {
        throw PeerError(fmt::format("{}: region {} of {} bytes; expected {}", session_->peer(),
                                    place.region.value(), place.length,
                                    end_->plans()[place.region.index()].region_bytes));
      }
      remote.set(place);
    }
    const std::int64_t own_zero = zero_ns(loop_);
    const std::int64_t shift = start->loop_zero_ns + start->peer_minus_own_ns - own_zero;
    const std::int64_t ahead = start->zero_ns - own_zero;
    const std::int64_t from_now = start->zero_ns - steady_ns();
    if (std::abs(shift) > kMostShiftNs || std::abs(from_now) > kMostAheadNs) {
      throw PeerError(
          fmt::format("{} starts a run in {:.1f} s, and itself started {:.1f} s before this role; "
                      "expected a start at once, and less than a month",
                      session_->peer(), static_cast<double>(from_now) / 1e9,
                      -static_cast<double>(shift) / 1e9));
    }
    // A time of the decode side's loop, as one of ours.
    end_->transport->set_clock(places_.decode, std::chrono::nanoseconds(shift));
    const TimePoint zero = std::max(TimePoint(std::chrono::nanoseconds(ahead)), loop_.clock());
    end_->deployment().router().on_prefill_ended([this](RequestId request) {
      std::vector<std::byte> told;
      Writer(told).put(request.value());
      session_->send(FrameKind::prefill_ended, told);
    });
    running_ = true;
    end_->start(zero, nullptr);
    while (!run_over_) end_->run();
    end_->drain();
    running_ = false;
    const std::vector<TraceRecord> records = end_->finish();
    const std::span<const TraceRecord> all(records);
    for (std::size_t at = 0; at < all.size(); at += kRecordsAFrame) {
      session_->send(FrameKind::records,
                     encode_records(all.subspan(at, std::min(kRecordsAFrame, all.size() - at))));
    }
    session_->send(FrameKind::run_done);
    return true;
  }

  const Scenario& scenario_;
  const LiveOptions& options_;
  const Say& say_;
  const ComputeKind compute_;
  const Places places_;
  WallLoop loop_{spin_of(compute_)};
  Listener listener_;
  Door door_{loop_, listener_};
  Config given_;
  EndpointId here_;
  std::unique_ptr<Session> session_;
  Nics nics_;
  Wire wire_;
  std::unique_ptr<RoleEnd> end_;
  bool running_ = false, run_over_ = false;
};

}  // namespace

void run_prefill_role(const Scenario& scenario, const LiveOptions& options,
                      const SocketAddress& listen, const Say& say) {
  require_secret(listen, options.secret);
  PrefillRole(scenario, options, listen, say).serve();
}

}  // namespace kvlane::live
