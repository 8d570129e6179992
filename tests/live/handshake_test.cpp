// Two ends of a session, each with its own loop and thread: who is let in, and what the other side
// hears when it is not.

#include "calibrate/live/session/handshake.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "calibrate/live/session/session.h"

namespace kvlane::live {
namespace {

constexpr Duration kLimit = std::chrono::seconds(20);  // far from what any of this takes
constexpr Duration kShort = std::chrono::milliseconds(100);

struct Sockets {
  Sockets() { REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0); }
  std::array<int, 2> ends{-1, -1};
};

using Side = std::function<void(Session& session, WallLoop& loop)>;

// What the side throws, in words; empty when it ends well.
std::string play(int fd, const Side& side, Duration lease) {
  try {
    WallLoop loop;
    Session session(loop, fd, {lease, "the peer"});
    side(session, loop);
    session.close();
  } catch (const PeerError& error) {
    return error.what();
  }
  return "";
}

struct Said {
  std::string active, passive;
};
Said play_both(const Side& active, const Side& passive, Duration lease = std::chrono::seconds(20)) {
  const Sockets sockets;
  Said said;
  std::thread other([&] { said.passive = play(sockets.ends[1], passive, lease); });
  said.active = play(sockets.ends[0], active, lease);
  other.join();
  return said;
}

Side knock(const std::string& secret, const Config& config) {
  return [=](Session& session, WallLoop&) {
    shake_hands_active(session, {secret, "1.0"}, config, kLimit);
    CHECK(session.trusted());
  };
}
Side open_to(const std::string& secret, const Config& config) {
  return [=](Session& session, WallLoop&) {
    shake_hands_passive(session, {secret, "1.0"}, config, {}, kLimit);
    CHECK(session.trusted());
  };
}

const Config kModel = {{"model", "llama"}, {"block_tokens", "16"}};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Bytes of a frame as Session writes them.
std::string frame(FrameKind kind, const std::string& body) {
  const auto length = static_cast<std::uint32_t>(body.size());
  std::string text(reinterpret_cast<const char*>(&length), sizeof length);
  text += static_cast<char>(kind);
  return text + "kvl" + body;
}

// A peer that is no Session: sends bytes, then reads until the other end closes.
Said play_against(const std::string& bytes, const Side& side, bool close_at_once = false) {
  const Sockets sockets;
  Said said;
  std::thread other([&] { said.passive = play(sockets.ends[1], side, kLimit); });
  const int fd = sockets.ends[0];
  CHECK(::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
  if (close_at_once) ::shutdown(fd, SHUT_WR);
  std::array<char, 4096> buffer{};
  pollfd ready{fd, POLLIN, 0};
  while (::poll(&ready, 1, 20000) == 1) {
    const ssize_t n = ::recv(fd, buffer.data(), buffer.size(), 0);
    if (n <= 0) break;
    said.active.append(buffer.data(), static_cast<std::size_t>(n));
  }
  other.join();
  ::close(fd);
  return said;
}

}  // namespace

TEST_CASE("the same secret and the same config: both are in") {
  for (const char* secret : {"", "correct horse"}) {
    const Said said = play_both(knock(secret, kModel), open_to(secret, kModel));
    CHECK(said.active == "");
    CHECK(said.passive == "");
  }
}

TEST_CASE("what the active side alone may choose is handed over") {
  Config given;
  const Config config = {{"model", "llama"}, {"block_tokens", "16"}, {"queues", "4"}};
  const Said said = play_both(knock("s", config), [&](Session& session, WallLoop&) {
    given = shake_hands_passive(session, {"s", "1.0"}, kModel, {"queues"}, kLimit);
  });
  CHECK(said.active == "");
  CHECK(said.passive == "");
  CHECK(given == Config{{"queues", "4"}});
}

TEST_CASE("a wrong secret is refused, and the other side hears that it was") {
  const Said said = play_both(knock("correct horse", kModel), open_to("battery staple", kModel));
  CHECK(said.active == "the peer refused: wrong secret");
  CHECK(said.passive == "the peer was refused: wrong secret");
}

TEST_CASE("a side without a secret is told which side that is") {
  const Said none_there = play_both(knock("", kModel), open_to("a secret", kModel));
  CHECK(has(none_there.active, "wrong secret: there is one at the listening side"));
  const Said none_here = play_both(knock("a secret", kModel), open_to("", kModel));
  CHECK(has(none_here.active, "wrong secret: there is none at the listening side"));
}

TEST_CASE("configs that differ: every difference with both values, at both ends") {
  const Config other = {{"model", "llama"}, {"block_tokens", "32"}, {"dtype", "fp8"}};
  const Said said = play_both(knock("s", other), open_to("s", kModel));
  CHECK(has(said.passive, "block_tokens: 16 here, 32 at the peer"));
  CHECK(has(said.passive, "dtype: nothing here, fp8 at the peer"));
  CHECK(has(said.active, "block_tokens: 32 here, 16 at the peer"));
  CHECK(has(said.active, "dtype: fp8 here, nothing at the peer"));
  for (const std::string& text : {said.active, said.passive}) CHECK(!has(text, "model"));
  CHECK(has(said.active, "refused"));
}

TEST_CASE("another protocol is refused with both numbers") {
  std::vector<std::byte> body;
  Writer out(body);
  out.put(kProtocol + 1);
  out.put_text("9.9");
  const std::string hello(reinterpret_cast<const char*>(body.data()), body.size());
  const Said said = play_against(frame(FrameKind::hello, hello), open_to("s", kModel));
  const std::string both =
      fmt::format("protocol {} (1.0) here, {} (9.9) at the peer", kProtocol, kProtocol + 1);
  CHECK(has(said.passive, both));
  CHECK(has(said.active,
            fmt::format("protocol {} (9.9) here, {} (1.0) at the peer", kProtocol + 1, kProtocol)));
  // The same from the side that listens.
  const Said told = play_against(frame(FrameKind::hello, hello), knock("s", kModel));
  CHECK(has(told.passive, both));
}

TEST_CASE("garbage is one error and not believed") {
  struct Case {
    std::string bytes, error;
  };
  std::string magic = frame(FrameKind::hello, "");
  magic[5] = 'x';
  std::string kind = frame(FrameKind::hello, "");
  kind[4] = '\x7f';
  std::string length = frame(FrameKind::hello, "");
  length[3] = '\x7f';
  const std::vector<Case> cases = {
      {"GET / HTTP/1.1\r\nHost: here\r\n\r\n", "the peer does not speak kvlane's protocol"},
      {magic, "the peer does not speak kvlane's protocol"},
      {kind, "the peer does not speak kvlane's protocol"},
      {length, "the peer sent a frame of 2130706432 bytes where at most 4096 belong"},
      {frame(FrameKind::config, "x"), "the peer sent 'config' where 'hello' was due"},
      {frame(FrameKind::hello, "short"), "the peer sent a hello that is none"},
      {frame(FrameKind::ping, "short"), "the peer sent 'ping' where 'hello' was due"},
      {frame(FrameKind::refuse, "?"), "the peer refused: without a reason"},
  };
  for (const Case& c : cases) {
    CHECK(play_against(c.bytes, open_to("s", kModel)).passive == c.error);
  }
}

TEST_CASE("a peer that closes in the middle of a frame or between them") {
  const std::string half = frame(FrameKind::hello, std::string(40, 'x')).substr(0, 20);
  for (const std::string& bytes : {std::string(), half}) {
    CHECK(play_against(bytes, open_to("s", kModel), true).passive ==
          "the peer closed the connection");
  }
}

TEST_CASE("a peer that knows nothing of the secret cannot copy the proof that it was sent") {
  // Sends back what it hears: the listening side's own hello, then its own proof, never sent.
  const Sockets sockets;
  std::string said;
  std::thread other([&] { said = play(sockets.ends[1], knock("s", kModel), kLimit); });
  const int fd = sockets.ends[0];
  std::array<char, 4096> buffer{};
  pollfd ready{fd, POLLIN, 0};
  while (::poll(&ready, 1, 20000) == 1) {
    const ssize_t n = ::recv(fd, buffer.data(), buffer.size(), 0);
    if (n <= 0) break;
    if (::send(fd, buffer.data(), static_cast<std::size_t>(n), MSG_NOSIGNAL) < 0) break;
  }
  other.join();
  ::close(fd);
  CHECK(said == "the peer does not know the secret");
}

TEST_CASE("nobody answers: the wait ends, and says for what it waited") {
  const Sockets sockets;
  const std::string said = play(
      sockets.ends[1],
      [](Session& session, WallLoop&) {
        shake_hands_passive(session, {"s", "1.0"}, kModel, {}, kShort);
      },
      kLimit);
  ::close(sockets.ends[0]);
  CHECK(said == "the peer: no 'hello' within 0.1 s");
}

TEST_CASE("a peer that is not heard of for its lease is gone") {
  std::atomic<bool> over = false;
  const auto gone = [&](Session& session, WallLoop&) {
    shake_hands_active(session, {"s", "1.0"}, kModel, kLimit);
    // Its loop does not run any more: no heartbeat leaves, and the socket stays open.
    while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  };
  const Said said = play_both(
      gone,
      [&](Session& session, WallLoop&) {
        shake_hands_passive(session, {"s", "1.0"}, kModel, {}, kLimit);
        struct Release {
          std::atomic<bool>& flag;
          ~Release() { flag = true; }
        } release{over};
        session.wait(FrameKind::ready, kLimit);
      },
      std::chrono::milliseconds(150));
  CHECK(has(said.passive, "was not heard of for 0."));
  CHECK(has(said.passive, "(lease 0.1 s)"));
}

TEST_CASE("heartbeats keep a session that has nothing to say") {
  const Side wait = [](Session& session, WallLoop& loop) {
    bool over = false;
    struct Context {
      bool* over;
      WallLoop* loop;
    } context{&over, &loop};
    loop.schedule_after(std::chrono::milliseconds(700), {[](void* c, std::uint64_t) {
                                                           auto& it = *static_cast<Context*>(c);
                                                           *it.over = true;
                                                           it.loop->stop();
                                                         },
                                                         &context, 0});
    while (!over) loop.run();
    CHECK(session.ended() == "");
    // Neither closes before both have looked.
    session.send(FrameKind::bye);
    session.wait(FrameKind::bye, kLimit);
  };
  const Said said = play_both(
      [&](Session& session, WallLoop& loop) {
        knock("s", kModel)(session, loop);
        wait(session, loop);
      },
      [&](Session& session, WallLoop& loop) {
        open_to("s", kModel)(session, loop);
        wait(session, loop);
      },
      std::chrono::milliseconds(400));
  CHECK(said.active == "");
  CHECK(said.passive == "");
}

TEST_CASE("who gives up says why, and the other side hears it where it waits") {
  const Said said = play_both(
      [](Session& session, WallLoop& loop) {
        knock("s", kModel)(session, loop);
        session.send_text(FrameKind::abort, "out of memory");
        session.close();
      },
      [](Session& session, WallLoop& loop) {
        open_to("s", kModel)(session, loop);
        session.wait(FrameKind::ready, kLimit);
      });
  CHECK(said.passive == "the peer gave up: out of memory");
}

TEST_CASE("a session that ends while nobody waits is told once") {
  const Said said =
      play_both([](Session& session, WallLoop& loop) { knock("s", kModel)(session, loop); },
                [](Session& session, WallLoop& loop) {
                  open_to("s", kModel)(session, loop);
                  int told = 0;
                  std::string reason;
                  session.on_end([&](const std::string& why) {
                    ++told;
                    reason = why;
                    loop.stop();
                  });
                  loop.hold();
                  while (told == 0 && session.ended().empty()) loop.run();
                  loop.release();
                  CHECK(session.ended() == "closed the connection");
                  CHECK(told <= 1);
                });
  CHECK(said.passive == "");
}

TEST_CASE("large frames belong to those who are trusted") {
  const std::vector<std::byte> large(1 << 20, std::byte{7});
  const Said said = play_both(
      [&](Session& session, WallLoop& loop) {
        knock("s", kModel)(session, loop);
        session.send(FrameKind::records, large);
        CHECK(session.wait(FrameKind::records, kLimit) == large);
      },
      [&](Session& session, WallLoop& loop) {
        open_to("s", kModel)(session, loop);
        session.send(FrameKind::records, session.wait(FrameKind::records, kLimit));
        // Until the other side has read it and closed.
        CHECK_THROWS_AS(session.wait(FrameKind::bye, kLimit), PeerError);
      });
  CHECK(said.active == "");
}

TEST_CASE("an answer to another ping than ours does not set a clock") {
  // Sent times that would make the round trip negative, or the clocks a second apart.
  for (const std::int64_t shift : {std::int64_t{1} << 62U, -std::int64_t{1'000'000'000}}) {
    play_both(
        [](Session& session, WallLoop& loop) {
          knock("s", kModel)(session, loop);
          CHECK_THROWS_WITH_AS(session.measure_clock(16, kLimit),
                               doctest::Contains("answered a ping with something else"), PeerError);
          session.send(FrameKind::bye);
        },
        [shift](Session& session, WallLoop& loop) {
          open_to("s", kModel)(session, loop);
          std::vector<std::byte> body;
          Writer out(body);
          out.put(shift > 0 ? shift : steady_ns() + shift);
          out.put(steady_ns());
          session.send(FrameKind::pong, body);
          session.wait(FrameKind::bye, kLimit);
        });
  }
}

TEST_CASE("clocks of one host are apart by no more than the error") {
  const Said said = play_both(
      [](Session& session, WallLoop& loop) {
        knock("s", kModel)(session, loop);
        const Session::ClockOffset offset = session.measure_clock(16, kLimit);
        CHECK(std::abs(offset.peer_minus_own_ns) <= offset.error_ns);
        CHECK(offset.error_ns == (offset.round_trip_ns + 1) / 2);
        session.send(FrameKind::bye);
      },
      [](Session& session, WallLoop& loop) {
        open_to("s", kModel)(session, loop);
        session.wait(FrameKind::bye, kLimit);
      });
  CHECK(said.active == "");
  CHECK(said.passive == "");
}

}  // namespace kvlane::live
