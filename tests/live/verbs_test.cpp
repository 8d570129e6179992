// The RDMA backend on real verbs: run by tests/support/rdma_guest, where rxe0 and rxe1 are the ends
// of one cable.

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "calibrate/live/rdma/gpu_memory.h"
#include "calibrate/live/rdma/rdma.h"
#include "tests/live/conformance.h"
#include "tests/live/fault_runs.h"

namespace kvlane::live::test {
namespace {

constexpr std::size_t kBytes = std::size_t{4} << 20U;
constexpr std::uint64_t kSeed = 5;

RdmaOptions options_of(std::size_t end) {
  RdmaOptions options;
  options.device = end == 0 ? "rxe0" : "rxe1";
  return options;
}

using Change = std::function<void(RdmaOptions&, std::size_t end)>;

std::unique_ptr<Pair> make_pair_of(ConnectionOptions options, const Change& change = nullptr,
                                   std::size_t pool = 2 * kBytes, std::size_t region = kBytes) {
  auto pair = std::make_unique<Pair>(
      pool, region, options,
      [&](Pair& made, std::size_t end) {
        RdmaOptions rdma = options_of(end);
        if (change) change(rdma, end);
        return open_rdma(made.loop, made.ends[end]->pool, rdma);
      },
      std::chrono::seconds(10));
  REQUIRE_MESSAGE(pair->error().empty(), pair->error());
  fill_pattern(kSeed, 0, pair->ends[0]->regions.bytes_of(kRegion));
  return pair;
}

TransferSpec told(std::span<const Fragment> pieces, std::uint64_t cookie = 0,
                  Lane lane = Lane::proactive) {
  TransferSpec spec = spec_of(0, TransferOp::write_with_imm, pieces, lane);
  spec.message.cookie = cookie;
  return spec;
}

TEST_CASE("rdma: conformance") {
  conform([](std::size_t pool, std::size_t region,
             ConnectionOptions options) { return make_pair_of(options, nullptr, pool, region); },
          /*one_sided=*/true);
}

TEST_CASE("rdma: an end is found by the address of its GID") {
  Pool pool(1 << 20);
  WallLoop loop;
  RdmaOptions options;
  options.address = "10.9.0.2";
  CHECK_NOTHROW(open_rdma(loop, pool, options));
  options.address = "10.9.0.3";
  CHECK_THROWS_WITH_AS(open_rdma(loop, pool, options),
                       doctest::Contains("no GID of RoCE v2 for 10.9.0.3"), RdmaError);
  options.address = "";
  options.device = "mlx5_0";
  CHECK_THROWS_WITH_AS(open_rdma(loop, pool, options), doctest::Contains("expected `mlx5_0`"),
                       RdmaError);
  options.device = "rxe1";
  options.gid_index = 100;
  CHECK_THROWS_WITH_AS(open_rdma(loop, pool, options), doctest::Contains("no GID 100"), RdmaError);
  const auto ports = list_rdma_ports();
  REQUIRE(ports.size() == 2);
  CHECK(std::any_of(ports[0].gids.begin(), ports[0].gids.end(),
                    [](const std::string& gid) { return gid.ends_with("10.9.0.1 RoCE v2"); }));
}

TEST_CASE("rdma: caps are what the device granted") {
  auto pair = make_pair_of({});
  const TransportLimits limits = pair->ends[0]->transport.limits(EndpointId(1));
  CHECK(limits.max_send_sge == 30);
  CHECK(limits.max_read_sge == 30);
  CHECK(limits.max_inline.count() >= 240);
}

TEST_CASE(
    "rdma: many small pieces are packed, longer ones gathered by the device, long ones written") {
  struct Shape {
    std::size_t count;
    std::int64_t length;
    bool packed;
  };
  for (const bool checksum : {false, true}) {
    auto pair = make_pair_of({1, checksum});
    Statuses done;
    std::uint64_t packed = 0;
    for (const Shape shape : {Shape{500, 256, true}, Shape{200, 4096, true}, Shape{10, 4096, false},
                              Shape{20, 65536, false}}) {
      const auto pieces = scattered(shape.count, shape.length, shape.length + 512);
      std::ranges::fill(pair->ends[1]->regions.bytes_of(kRegion), std::byte{0});
      const std::size_t before = done.status.size();
      pair->ends[0]->transport.post(told(pieces), done.note(0));
      pair->settle();
      REQUIRE(done.status.size() == before + 1);
      CHECK(done.all_ok());
      CHECK(holds_pattern(*pair->ends[1], pieces, kSeed));
      CHECK(holds_zeros(*pair->ends[1], shape.length, 512));
      packed += shape.packed ? 1 : 0;
      const ConnectionCounters& counters =
          pair->ends[0]->transport.connection(EndpointId(1))->counters();
      CHECK(counters.packed == packed);
      CHECK(counters.doorbells <= counters.work_requests);
    }
  }
}

TEST_CASE(
    "rdma: more messages than the peer has receives posted wait for credits, and all arrive") {
  auto pair = make_pair_of({2, false}, [](RdmaOptions& options, std::size_t) {
    options.receives = 4;
    options.inbox_bytes = 64 << 10;
    options.send_depth = 16;
    options.receiver_retries = 0;
  });
  Statuses done;
  const auto pieces = scattered(40, 256, 512);
  const auto few = scattered(3, 3000, 6000);
  for (std::uint64_t i = 0; i < 200; ++i) {
    for (const std::size_t from : {0U, 1U}) {
      TransferSpec spec = spec_of(from, i % 3 == 0 ? TransferOp::read : TransferOp::write_with_imm,
                                  i % 2 == 0 ? std::span(pieces) : std::span(few),
                                  static_cast<Lane>(i % kLaneCount));
      spec.queue = static_cast<std::uint32_t>(i / 4 % 2);
      spec.message.cookie = i;
      pair->ends[from]->transport.post(spec, done.note(i));
    }
  }
  pair->settle();
  CHECK(done.status.size() == 400);
  CHECK(done.all_ok());
  CHECK(pair->ends[0]->lost == "");
  CHECK(pair->ends[1]->lost == "");
  CHECK(pair->ends[1]->witness.seen.size() == 133);
  CHECK(pair->ends[0]->transport.connection(EndpointId(1))->counters().starved > 0);
}

TEST_CASE("rdma: messages of half an inbox, behind each other and between small ones") {
  auto pair = make_pair_of({2, false});
  Statuses done;
  const auto pieces = scattered(100, 128, 256);
  for (std::uint64_t i = 0; i < 12; ++i) {
    TransferSpec tell = spec_of(0, TransferOp::send, {}, static_cast<Lane>(i % kLaneCount));
    tell.queue = static_cast<std::uint32_t>(i % 2);
    tell.message.cookie = i;
    tell.bytes = Bytes(i % 3 == 0 ? 4'000'000 : 100);  // of the message on the wire
    pair->ends[0]->transport.post(tell, done.note(i));
    pair->ends[0]->transport.post(told(pieces, 100 + i), done.note(100 + i));
  }
  pair->settle();
  CHECK(done.status.size() == 24);
  CHECK(done.all_ok());
  CHECK(pair->ends[1]->witness.seen.size() == 24);
}

TEST_CASE("rdma: a wrong checksum fails its operation, is counted, and tells nobody") {
  for (const bool packed : {false, true}) {
    auto pair = make_pair_of({1, true}, [](RdmaOptions& options, std::size_t end) {
      if (end == 0) options.wrong_checksum = 2;
    });
    Statuses done;
    const auto pieces = packed ? scattered(100, 128, 256) : scattered(2, 4096, 8192);
    for (std::uint64_t i = 0; i < 3; ++i) {
      pair->ends[0]->transport.post(told(pieces, i), done.note(i));
    }
    pair->settle();
    REQUIRE(done.status.size() == 3);
    CHECK(done.status[0] == TransferStatus::ok);
    CHECK(done.status[1] == TransferStatus::failed);
    CHECK(done.status[2] == TransferStatus::ok);
    CHECK(pair->ends[1]->witness.seen.size() == 2);
    CHECK(pair->ends[1]->transport.connection(EndpointId(0))->counters().checksum_errors == 1);
    CHECK(pair->ends[1]->lost == "");
  }
}

TEST_CASE("rdma: a message about bytes outside of its region ends the peer, and is not told") {
  for (const bool packed : {false, true}) {
    auto pair = make_pair_of({});
    RegionPlace place;
    place.region = kRegion;
    place.epoch = pair->ends[1]->regions.epoch_of(kRegion);
    place.length = kBytes + 65536;  // more than there is, within the pool
    pair->ends[0]->transport.remote_of(EndpointId(1)).set(place);
    pair->ends[0]->regions.withdraw(kRegion, {});
    REQUIRE(pair->ends[0]->regions.create(kRegion, kBytes + 65536));
    Statuses done;
    const auto pieces = scattered(packed ? 100 : 1, 128, 256, kBytes);
    pair->ends[0]->transport.post(told(pieces), done.note(0));
    pair->settle();
    CHECK(done.status == std::vector{TransferStatus::failed});
    CHECK(pair->ends[1]->lost.find("of region 7, which has fewer") != std::string::npos);
    CHECK(pair->ends[1]->witness.seen.empty());
  }
}

TEST_CASE("rdma: what is exposed anew is not reached under its old epoch") {
  auto pair = make_pair_of({});
  // The number has a new owner, whose bytes lie in another place.
  RegionTable& regions = pair->ends[1]->regions;
  regions.withdraw(kRegion, {1});
  REQUIRE(regions.create(kRegion, kBytes));
  regions.expose(kRegion);
  std::ranges::fill(regions.bytes_of(kRegion), std::byte{0});
  Statuses done;
  const auto small = scattered(100, 128, 256);
  const auto large = scattered(2, 4096, 8192);
  std::uint64_t n = 0;
  for (const auto& pieces : {small, large}) {
    pair->ends[0]->transport.post(told(pieces, n), done.note(n));
    ++n;
  }
  pair->ends[0]->transport.post(spec_of(0, TransferOp::read, small), done.note(n));
  pair->settle();
  REQUIRE(done.status.size() == 3);
  for (const TransferStatus status : done.status) CHECK(status == TransferStatus::failed);
  CHECK(pair->ends[1]->witness.seen.empty());
  CHECK(holds_zeros(*pair->ends[1], 0, kBytes));
  // The peer is still there, and yet nobody may wait for these bytes.
  CHECK(pair->ends[0]->lost == "12800 bytes in 100 pieces had no place there");
  CHECK(pair->ends[1]->lost == "");
}

TEST_CASE("rdma: what has not left can be cancelled, and completes as that") {
  auto pair = make_pair_of({});
  Statuses done;
  const auto pieces = scattered(1, kBytes, kBytes);
  std::vector<TransferId> ids;
  for (std::uint64_t i = 0; i < 3; ++i) {
    ids.push_back(pair->ends[0]->transport.post(told(pieces, i), done.note(i)));
  }
  CHECK(pair->ends[0]->transport.cancel(ids[2]));
  pair->settle();
  REQUIRE(done.status.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(done.status[i] == (done.order[i] == 2 ? TransferStatus::cancelled : TransferStatus::ok));
  }
  CHECK(pair->ends[1]->witness.seen.size() == 2);
}

TEST_CASE("rdma: offers that do not fit are refused with both values") {
  WallLoop loop;
  Pool pool(1 << 20);
  RegionTable regions(pool);
  RemoteRegions remote;
  End end(loop, EndpointId(0), 1 << 20, std::chrono::seconds(1));
  auto backend = open_rdma(loop, pool, options_of(0));
  const auto prepare = [&](std::uint32_t queues) {
    return backend->prepare(
        end.transport.owner_of(EndpointId(1)), {&regions, &remote}, {queues, false}, true,
        {[](void* l, std::uint64_t) { static_cast<WallLoop*>(l)->stop(); }, &loop, 0});
  };
  auto one = prepare(1);
  auto two = prepare(2);
  one->connect(two->offer());
  CHECK(one->error() == "RDMA: 1 queues a lane here, 2 at the peer");
  CHECK(one->take() == nullptr);
  const std::vector<std::byte> garbage(100, std::byte{7});
  two->connect(garbage);
  CHECK(two->error() == "RDMA: 100 bytes that are no RDMA offer");
}

TEST_CASE("rdma: a peer that never connects is an error after a while") {
  WallLoop loop;
  Pool pool(1 << 20);
  RegionTable regions(pool);
  RemoteRegions remote;
  End end(loop, EndpointId(0), 1 << 20, std::chrono::seconds(1));
  RdmaOptions options = options_of(0);
  options.connect_timeout = std::chrono::milliseconds(800);
  auto backend = open_rdma(loop, pool, options);
  const auto prepare = [&](bool passive) {
    return backend->prepare(
        end.transport.owner_of(EndpointId(1)), {&regions, &remote}, {}, passive,
        {[](void* l, std::uint64_t) { static_cast<WallLoop*>(l)->stop(); }, &loop, 0});
  };
  auto passive = prepare(true);
  auto active = prepare(false);
  active->connect(passive->offer());  // the other way round nobody connects
  loop.hold();
  loop.run();
  loop.release();
  CHECK(active->error() == "RDMA: the peer's RDMA device was not heard within 0.8 s");
}

TEST_CASE("rdma: an end that connects a second after the other is waited for") {
  WallLoop loop;
  struct Side {
    End end;
    std::unique_ptr<Backend> backend;
    std::unique_ptr<PendingConnection> pending;
    Side(WallLoop& on, std::size_t number)
        : end(on, EndpointId(number), 1 << 20, std::chrono::seconds(5)),
          backend(open_rdma(on, end.pool, options_of(number))) {
      const EndpointId peer(1 - number);
      pending = backend->prepare(end.transport.owner_of(peer),
                                 {&end.regions, &end.transport.remote_of(peer)}, {}, number == 0,
                                 stop(on));
    }
    static Callback stop(WallLoop& on) {
      return {[](void* l, std::uint64_t) { static_cast<WallLoop*>(l)->stop(); }, &on, 0};
    }
  };
  Side passive(loop, 0);
  Side active(loop, 1);
  active.pending->connect(passive.pending->offer());
  loop.schedule_after(std::chrono::seconds(1), Side::stop(loop));
  loop.run();
  CHECK(active.pending->take() == nullptr);
  CHECK(active.pending->error().empty());
  passive.pending->connect(active.pending->offer());
  std::unique_ptr<Connection> first;
  std::unique_ptr<Connection> second;
  while ((!first || !second) && active.pending->error().empty()) {
    loop.run();
    if (!first) first = passive.pending->take();
    if (!second) second = active.pending->take();
  }
  REQUIRE(first);
  REQUIRE(second);
  active.end.transport.connect(EndpointId(0), std::move(second));
  passive.end.transport.connect(EndpointId(1), std::move(first));
  Statuses done;
  TransferSpec hello = spec_of(1, TransferOp::send, {}, Lane::control);
  active.end.transport.post(hello, done.note(0));
  loop.schedule_after(std::chrono::milliseconds(200), Side::stop(loop));
  loop.run();
  CHECK(done.status == std::vector{TransferStatus::ok});
  CHECK(passive.end.witness.seen.size() == 1);
  active.end.transport.close();
  passive.end.transport.close();
}

// The peer's process: connects over `fd`, and lives until it is killed.
[[noreturn]] void be_a_peer(int fd) {
  WallLoop loop;
  End end(loop, EndpointId(1), 1 << 20, std::chrono::seconds(10));
  end.regions.create(kRegion, 1 << 20);
  auto backend = open_rdma(loop, end.pool, options_of(1));
  auto pending = backend->prepare(
      end.transport.owner_of(EndpointId(0)),
      {&end.regions, &end.transport.remote_of(EndpointId(0))}, {}, false,
      {[](void* l, std::uint64_t) { static_cast<WallLoop*>(l)->stop(); }, &loop, 0});
  std::array<std::byte, 4096> theirs{};
  const RegionPlace place = end.regions.expose(kRegion);
  const auto offer = pending->offer();
  if (::write(fd, &place, sizeof place) < 0 || ::write(fd, offer.data(), offer.size()) < 0) {
    ::_exit(1);
  }
  const auto size = static_cast<std::size_t>(::read(fd, theirs.data(), theirs.size()));
  pending->connect(std::span(theirs).first(size));
  loop.hold();
  loop.run();
  end.transport.connect(EndpointId(0), pending->take());
  for (;;) loop.run();
}

TEST_CASE("rdma: random runs under faults") {
  const MakeWire wire = [](const MeshEnd& end) {
    return open_rdma(end.loop, end.pool, options_of(end.side));
  };
  // An emulated processor takes its time.
  const Outcome outcome =
      fault_runs(wire, 20'001, fault_runs_wanted(50), std::chrono::milliseconds(600));
  MESSAGE(outcome.good, " runs to the end, ", outcome.failed, " with an error");
  CHECK(outcome.good > 0);
  CHECK(outcome.failed > 0);
}

TEST_CASE("rdma: a peer that is killed is noticed within two seconds, busy or idle") {
  for (const bool busy : {false, true}) {
    CAPTURE(busy);
    std::array<int, 2> fds{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds.data()) == 0);
    const pid_t child = ::fork();
    if (child == 0) be_a_peer(fds[1]);
    ::close(fds[1]);
    WallLoop loop;
    End end(loop, EndpointId(0), 1 << 20, std::chrono::seconds(10));
    REQUIRE(end.regions.create(kRegion, 1 << 20));
    auto backend = open_rdma(loop, end.pool, options_of(0));
    RegionPlace place;
    REQUIRE(::read(fds[0], &place, sizeof place) == sizeof place);
    end.transport.remote_of(EndpointId(1)).set(place);
    auto pending = backend->prepare(
        end.transport.owner_of(EndpointId(1)),
        {&end.regions, &end.transport.remote_of(EndpointId(1))}, {}, true,
        {[](void* l, std::uint64_t) { static_cast<WallLoop*>(l)->stop(); }, &loop, 0});
    std::array<std::byte, 4096> theirs{};
    const auto size = static_cast<std::size_t>(::read(fds[0], theirs.data(), theirs.size()));
    const auto offer = pending->offer();
    REQUIRE(::write(fds[0], offer.data(), offer.size()) > 0);
    pending->connect(std::span(theirs).first(size));
    loop.hold();
    loop.run();
    REQUIRE_MESSAGE(pending->error().empty(), pending->error());
    end.transport.connect(EndpointId(1), pending->take());
    Statuses done;
    const auto pieces = scattered(1, 1 << 20, 1 << 20);
    const auto post = [&] { end.transport.post(told(pieces), done.note(0)); };
    post();
    while (done.status.empty()) {
      loop.schedule_at(
          std::max(loop.now(), loop.clock()) + std::chrono::milliseconds(1),
          {[](void* l, std::uint64_t) { static_cast<WallLoop*>(l)->stop(); }, &loop, 0});
      loop.run();
    }
    CHECK(done.all_ok());
    if (busy) {
      for (int i = 0; i < 50; ++i) post();
    }
    const auto killed = std::chrono::steady_clock::now();
    ::kill(child, SIGKILL);
    end.transport.on_failure([&](EndpointId, const std::string& reason, RequestId) {
      end.lost = reason;
      loop.stop();
    });
    loop.schedule_at(loop.clock() + std::chrono::seconds(5),
                     {[](void* l, std::uint64_t) { static_cast<WallLoop*>(l)->stop(); }, &loop, 0});
    loop.run();
    const auto noticed = std::chrono::steady_clock::now() - killed;
    CHECK(end.lost.find("the peer does not answer") != std::string::npos);
    CHECK(noticed < std::chrono::seconds(2));
    MESSAGE(
        "noticed after " << std::chrono::duration_cast<std::chrono::milliseconds>(noticed).count()
                         << " ms");
    int status = 0;
    ::waitpid(child, &status, 0);
    ::close(fds[0]);
    end.transport.close();
  }
}

TEST_CASE("rdma: too little locked memory is said with the command that mends it") {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{1 << 20, 1 << 20};
    int code = 1;
    if (::setrlimit(RLIMIT_MEMLOCK, &limit) == 0 && ::setgid(65534) == 0 && ::setuid(65534) == 0) {
      try {
        WallLoop loop;
        Pool pool(std::size_t{4} << 20U);
        open_rdma(loop, pool, options_of(0));
        code = 2;
      } catch (const RdmaError& error) {
        const std::string text = error.what();
        code = text.find(
                   "needs 4096 KiB of locked memory, the limit is 1024 KiB; mend it with "
                   "`ulimit -l unlimited`") == std::string::npos
                   ? 3
                   : 0;
      }
    }
    ::_exit(code);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("rdma: GPU memory that neither way registers says what was tried") {
  WallLoop loop;
  Device device(loop, options_of(0));
  GpuMemory memory;
  memory.address = 4096;  // mapped by nobody
  memory.bytes = 4096;
  Pool pool(1 << 20);
  memory.dma_buf = pool.fd();  // no dma-buf
  const GpuRegistration made = register_gpu(device, memory);
  CHECK(!made.region);
  CHECK(made.how.find("dma-buf: ") == 0);
  CHECK(made.how.find("; nvidia_peermem: ") != std::string::npos);
}

}  // namespace
}  // namespace kvlane::live::test
