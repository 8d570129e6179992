// The end of a measured link that answers.

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <utility>

#include "calibrate/live/link/link_end.h"
#include "calibrate/live/link/neighbour.h"
#include "calibrate/live/role/choice.h"
#include "calibrate/live/role/role.h"
#include "calibrate/live/session/door.h"

namespace kvlane::live {
namespace {

constexpr std::uint32_t kMostQueues = 64;

// Writes of this end on a lane below that of fetches, while it was told to.
struct Pusher {
  explicit Pusher(LinkEnd& e) : end(e), scatter(e.link.working_set, kBackgroundPush) {}

  void fill() {
    while (in_flight + kBackgroundPush <= limit) {
      const Fragment piece{kLinkRegion, scatter.next(), kBackgroundPush};
      TransferSpec spec;
      spec.op = TransferOp::write;
      spec.lane = lane;
      spec.poster = kPassiveEnd;
      spec.peer = kActiveEnd;
      spec.bytes = Bytes(kBackgroundPush);
      spec.fragments = {&piece, 1};
      in_flight += kBackgroundPush;
      end.transport.post(spec, {[](void* self, std::uint64_t status) {
                                  static_cast<Pusher*>(self)->completed(status);
                                },
                                this, 0});
    }
  }
  void completed(std::uint64_t status) {
    in_flight -= kBackgroundPush;
    if (status == 0) fill();
    if (in_flight == 0 && when_idle) std::exchange(when_idle, nullptr)();
  }

  LinkEnd& end;
  Scatter scatter;
  Lane lane = Lane::speculative;
  std::int64_t limit = 0, in_flight = 0;  // bytes
  std::function<void()> when_idle;
};

std::string value_of(const Config& config, const std::string& name) {
  for (const auto& [key, value] : config) {
    if (key == name) return value;
  }
  return "";
}

std::int64_t size_of(const Session& session, const Config& given, const char* key,
                     std::int64_t most) {
  const std::string text = value_of(given, key);
  std::int64_t size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || size < 1 ||
      size > most) {
    throw PeerError(
        fmt::format("{} asks for {} '{}'; expected 1 to {}", session.peer(), key, text, most));
  }
  return size;
}

// What was stated here must be alike; the rest is the peer's to choose.
LinkOptions agree(Session& session, const LiveOptions& options, const LinkOptions& link) {
  Config own = {{"task", "calibrate link"}, {"--checksum", options.checksum ? "yes" : "no"}};
  std::vector<std::string> theirs;
  const auto add = [&](const char* key, std::int64_t value) {
    if (value > 0) {
      own.emplace_back(key, fmt::format("{}", value));
    } else {
      theirs.emplace_back(key);
    }
  };
  add(kWorkingSetKey, link.working_set);
  add(kQueuesKey, link.queues);
  const Config given = shake_hands_passive(session, {options.secret, options.version}, own, theirs,
                                           std::min(options.connect, kAtTheDoor));
  LinkOptions agreed = link;
  const std::int64_t memory = std::int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
  if (agreed.working_set == 0) {
    agreed.working_set = size_of(session, given, kWorkingSetKey, memory / 2);
  }
  if (agreed.queues == 0) {
    agreed.queues = static_cast<std::uint32_t>(size_of(session, given, kQueuesKey, kMostQueues));
  }
  return agreed;
}

class Answering {
 public:
  Answering(WallLoop& loop, Session& session, LinkEnd& end)
      : loop_(loop), session_(session), end_(end), pusher_(end) {
    session_.take_up(FrameKind::start,
                     [this](std::span<const std::byte> body) { carry_out(body); });
    session_.take_up(FrameKind::bye, [this](std::span<const std::byte>) {
      over_ = true;
      loop_.stop();
    });
  }
  void serve() {
    loop_.hold();
    while (!over_) {
      end_.check();
      loop_.run();
    }
    loop_.release();
  }

 private:
  void carry_out(std::span<const std::byte> body) {
    Reader in(body);
    const LinkCommand command = in.get_enum(LinkCommand::last);
    const auto value = in.get<std::int64_t>();
    const bool pushes = command == LinkCommand::background || command == LinkCommand::push;
    const bool sized = pushes                         ? value <= end_.link.working_set
                       : command == LinkCommand::line ? value > 0
                                                      : true;
    if (!in.done() || value < 0 || !sized) {
      return end_.fail(session_.peer() + " sent a command that is none");
    }
    if (command == LinkCommand::neighbour) {
      neighbour_ = value > 0 ? std::make_unique<Neighbour>() : nullptr;
      loop_.set_spin(value > 0 ? Duration::zero() : kLinkSpin);
    }
    if (command == LinkCommand::line) {
      end_.transport.set_line(kActiveEnd, Bandwidth::bits_per_sec(value));
    }
    if (pushes) {
      pusher_.lane = command == LinkCommand::push ? Lane::proactive : Lane::speculative;
      pusher_.limit = value;
      pusher_.fill();
      // Told to stop, it answers when its last write has ended.
      if (value == 0 && pusher_.in_flight > 0) {
        pusher_.when_idle = [this] { answer(); };
        return;
      }
    }
    answer();
  }
  void answer() {
    std::vector<std::byte> body;
    Writer out(body);
    out.put(process_cpu_seconds());
    out.put(neighbour_ ? neighbour_->done() : std::uint64_t{0});
    out.put(zero_ns(loop_));
    out.put_text(host_identity());
    session_.send(FrameKind::run_done, body);
  }

  WallLoop& loop_;
  Session& session_;
  LinkEnd& end_;
  Pusher pusher_;
  std::unique_ptr<Neighbour> neighbour_;
  bool over_ = false;
};

}  // namespace

void run_link_passive(const LiveOptions& options, const LinkOptions& link,
                      const SocketAddress& listen, const Say& say) {
  require_secret(listen, options.secret);
  pin_to(options.processors);
  abilities(options);  // a transport that is missing is told before anybody comes
  WallLoop loop(kLinkSpin);
  Listener listener(loop, listen);
  say("listening " + listener.address().text());
  Door door(loop, listener);
  std::unique_ptr<Session> admitted;
  LinkOptions agreed;
  while (!admitted) {
    const int fd = door.next();
    auto knocking = std::make_unique<Session>(
        loop, fd,
        Session::Options{options.lease, "the measuring end at " + peer_address(fd).text()});
    try {
      agreed = agree(*knocking, options, link);
      admitted = std::move(knocking);
    } catch (const PeerError& error) {
      // As a prefill role: a stranger is refused and the door stays open.
      if (knocking->trusted()) throw;
      say(error.what());
    }
  }
  door.close();
  Session& session = *admitted;
  LinkEnd end(loop, kPassiveEnd, options, agreed, [&] { session.breathe(); });
  session.on_turn([&] { end.check(); });
  end.exchange_places(session, kActiveEnd, options.connect);
  ConnectionOptions connection;
  connection.queues = agreed.queues;
  connection.checksum = options.checksum;
  Nics nics;
  const Wire wire = wire_up_passive(
      session, {loop, end.pool, end.regions, end.transport, kActiveEnd, connection, options, nics},
      listener);
  session.on_end([&](const std::string& reason) { end.fail(session.peer() + " " + reason); });
  Answering(loop, session, end).serve();
  session.on_end(nullptr);
  session.close();
  end.transport.close();
}

}  // namespace kvlane::live
