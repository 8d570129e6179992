// TCP keeps what every wire must keep, and proactive bytes out of the way of fetches.

#include <sys/socket.h>
#include <unistd.h>

#include "calibrate/live/tcp/tcp_connection.h"
#include "tests/live/conformance.h"

namespace kvlane::live::test {
namespace {

struct Silent final : ConnectionOwner {
  void completed(std::uint64_t, TransferStatus, TimePoint, TimePoint) override {}
  void arrived(Lane, std::uint32_t, std::span<const std::byte>) override {}
  void lost(const std::string&) override {}
};

// One connection whose peers are sockets that nobody reads.
struct Lonely {
  Lonely() : pool(1 << 16), regions(pool) {
    regions.create(kRegion, 1 << 15);
    remote.set(regions.expose(kRegion));
    std::vector<int> own;
    for (int i = 0; i < kLaneCount; ++i) {
      std::array<int, 2> ends{-1, -1};
      REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) ==
              0);
      own.push_back(ends[0]);
      theirs.push_back(ends[1]);
    }
    sockets = own;
    connection = std::make_unique<tcp::TcpConnection>(
        loop, owner, ConnectionMemory{&regions, &remote, {}}, ConnectionOptions{}, own);
  }
  ~Lonely() {
    connection.reset();
    for (const int fd : theirs) ::close(fd);
  }
  // Bytes a second that the kernel lets out of the lane's socket.
  double pace(Lane lane) const {
    unsigned long rate = 0;
    socklen_t size = sizeof rate;
    REQUIRE(::getsockopt(sockets[index(lane)], SOL_SOCKET, SO_MAX_PACING_RATE, &rate, &size) == 0);
    return static_cast<double>(rate);
  }
  void post(Lane lane) {
    Operation& operation = posted.emplace_back();
    operation.id = posted.size();
    operation.lane = lane;
    operation.fragments = {{kRegion, 0, 4096}};
    operation.bytes = 4096;
    connection->post(operation);
    wait(std::chrono::milliseconds(1));
  }
  void wait(Duration time) {
    loop.schedule_at(later(std::max(loop.now(), loop.clock()), time),
                     {[](void* l, std::uint64_t) { static_cast<WallLoop*>(l)->stop(); }, &loop, 0});
    loop.run();
  }

  WallLoop loop;
  Pool pool;
  RegionTable regions;
  RemoteRegions remote;
  Silent owner;
  std::vector<int> sockets, theirs;
  std::deque<Operation> posted;
  std::unique_ptr<tcp::TcpConnection> connection;
};

}  // namespace

TEST_CASE("tcp: conformance") {
  conform([](std::size_t pool, std::size_t region, ConnectionOptions options) {
    return std::make_unique<Pair>(pool, region, options, make_tcp, std::chrono::seconds(2));
  });
}

TEST_CASE("tcp: the proactive lane is paced to the line while fetches come") {
  const double line = 1.25e9;
  Lonely one;
  CHECK(one.pace(Lane::proactive) > 100 * line);
  one.connection->set_line(Bandwidth::gbit_per_sec(10));
  CHECK(one.pace(Lane::speculative) == doctest::Approx(0.95 * line));
  // Nothing to be passed: nothing is lost to pacing.
  one.post(Lane::proactive);
  CHECK(one.pace(Lane::proactive) > 100 * line);
  one.post(Lane::control);
  CHECK(one.pace(Lane::proactive) > 100 * line);
  one.post(Lane::on_demand);
  CHECK(one.pace(Lane::proactive) == doctest::Approx(0.985 * line));
  one.post(Lane::proactive);
  CHECK(one.pace(Lane::proactive) == doctest::Approx(0.985 * line));
  one.wait(std::chrono::milliseconds(150));
  one.post(Lane::proactive);
  CHECK(one.pace(Lane::proactive) > 100 * line);
  CHECK(one.pace(Lane::on_demand) > 100 * line);
}

TEST_CASE("tcp: on a slow line the proactive lane is always paced") {
  Lonely one;
  one.connection->set_line(Bandwidth::gbit_per_sec(0.1));
  CHECK(one.pace(Lane::proactive) == doctest::Approx(0.985 * 12.5e6));
  one.post(Lane::on_demand);
  one.wait(std::chrono::milliseconds(150));
  one.post(Lane::proactive);
  CHECK(one.pace(Lane::proactive) == doctest::Approx(0.985 * 12.5e6));
}

}  // namespace kvlane::live::test
