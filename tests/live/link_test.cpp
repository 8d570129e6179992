// The ends of a measured link, both in this process on their own threads: what is agreed, what is
// measured, what is verified.

#include <doctest/doctest.h>
#include <unistd.h>

#include <future>
#include <set>
#include <string>
#include <thread>

#include "calibrate/live/link/link_nic.h"
#include "calibrate/live/link/link_place.h"
#include "calibrate/live/link/link_sweep.h"

namespace kvlane::live {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20U;

LiveOptions options_of(TransportKind transport) {
  LiveOptions o;
  o.transport = transport;
  o.secret = "a secret of this test";
  o.version = "test";
  o.connect = std::chrono::seconds(20);
  return o;
}

// The end that answers, on a thread.
class Answering {
 public:
  Answering(const LiveOptions& options, const LinkOptions& link)
      : thread_([this, options, link] {
          try {
            run_link_passive(options, link, parse_address("127.0.0.1:0", "test"),
                             [this](const std::string& line) {
                               address_.set_value(line.substr(line.find(' ') + 1));
                             });
          } catch (const std::exception& error) {
            said = error.what();
          }
        }) {}
  ~Answering() { join(); }
  SocketAddress address() { return parse_address(address_.get_future().get(), "test"); }
  void join() {
    if (thread_.joinable()) thread_.join();
  }
  std::string said;  // after join()

 private:
  std::promise<std::string> address_;
  std::thread thread_;
};

const Say kQuiet = [](const std::string&) {};
const LinkOptions kAsked{4 * kMiB, 2};
const LinkOptions kAnyhow{0, 0};

LinkLoad short_load(TransferOp op, std::int64_t bytes, std::int64_t fragments, int depth) {
  LinkLoad load;
  load.op = op;
  load.bytes = bytes;
  load.fragments = fragments;
  load.depth = depth;
  load.queues = 2;
  load.seconds = 0;
  load.warm_up_seconds = 0;
  load.least_count = 30;
  return load;
}

}  // namespace

TEST_CASE("a link is measured and verified, by shared memory and by TCP") {
  for (const TransportKind transport : {TransportKind::shm, TransportKind::tcp}) {
    Answering answering(options_of(transport), kAnyhow);
    {
      LinkProbe probe(options_of(transport), kAsked, answering.address(), kQuiet);
      CHECK(probe.transport() == to_string(transport));
      CHECK(probe.same_host());
      CHECK(probe.clock_error_us() == 0);
      CHECK(probe.connect_seconds() > 0);
      for (const TransferOp op : {TransferOp::write, TransferOp::read}) {
        const LinkLoad load = short_load(op, 65536, 64, 4);
        CHECK(probe.verify(load) >= load.bytes);
        const LinkSample sample = probe.measure(load);
        CHECK(sample.errors == 0);
        CHECK(sample.operations >= load.least_count);
        CHECK(sample.seconds > 0);
        CHECK(sample.rate_GBps * 1e9 == doctest::Approx(sample.operations_per_s * 65536));
        CHECK(sample.operations_per_s ==
              doctest::Approx(static_cast<double>(sample.operations) / sample.seconds));
        const LatencyUs& l = sample.latency;
        CHECK(l.min > 0);
        CHECK(l.min <= l.p50);
        CHECK(l.p50 <= l.p99);
        CHECK(l.p99 <= l.p999);
        CHECK(l.p999 <= l.max);
        CHECK(l.mean <= l.max);
        CHECK(sample.visible_from == VisibleFrom::own_clock);
        CHECK(sample.visible.p50 <= l.p50);
      }
      // Background writes come, go on while a fetch is measured, and have ended when they were told
      // to: what is here then stays as it is.
      probe.background(2 * kMiB);
      CHECK(probe.measure(short_load(TransferOp::read, 4096, 1, 1)).errors == 0);
      probe.background(0);
      CHECK(probe.verify(short_load(TransferOp::read, kMiB, 256, 1)) >= kMiB);
      probe.close();
    }
    answering.join();
    CHECK(answering.said == "");
  }
}

TEST_CASE("a sweep carries out its rows") {
  Answering answering(options_of(TransportKind::shm), kAnyhow);
  LinkAxes axes;
  axes.sizes = {4096};
  axes.fragments = {1, 1024};
  axes.depths = {3};
  axes.queues = {1, 2};
  axes.background_bytes = {0, kMiB};
  axes.seconds = 0.005;
  const TransportLimits limits;
  const std::vector<LinkRow> rows = rows_of(axes, &limits);
  std::set<LinkAxis> seen;
  for (const LinkRow& row : rows) seen.insert(row.axis);
  CHECK(seen.size() == 7);
  std::size_t done = 0;
  {
    LinkProbe probe(options_of(TransportKind::shm), kAsked, answering.address(), kQuiet);
    const SweepResult result = measure_rows(probe, rows, true, [&] { ++done; });
    CHECK(done == rows.size());
    CHECK(result.rows.size() + static_cast<std::size_t>(result.left_out) == rows.size());
    for (const MeasuredRow& row : result.rows) {
      CHECK(row.sample.operations > 0);
      CHECK(row.verified_bytes >= row.row.load.bytes);
    }
    probe.close();
  }
  answering.join();
  CHECK(answering.said == "");
}

TEST_CASE("what both ends state must be alike; what one states the other takes") {
  const LinkOptions stated{8 * kMiB, 0};
  Answering answering(options_of(TransportKind::tcp), stated);
  std::string said;
  try {
    LinkProbe(options_of(TransportKind::tcp), kAsked, answering.address(), kQuiet);
  } catch (const PeerError& error) {
    said = error.what();
  }
  answering.join();
  CHECK(answering.said.find("--working-set (bytes): 8388608 here, 4194304 at the peer") !=
        std::string::npos);
  CHECK(said.find("--working-set (bytes): 4194304 here, 8388608 at the peer") != std::string::npos);
}

TEST_CASE("an answering end that has no secret is for loopback") {
  LiveOptions options = options_of(TransportKind::tcp);
  options.secret.clear();
  CHECK_THROWS_AS(
      run_link_passive(options, kAnyhow, parse_address("0.0.0.0:0", "--listen"), kQuiet),
      OptionError);
}

TEST_CASE("where a link was measured") {
  const LiveOptions options;
  const SocketAddress loopback = parse_address("127.0.0.1:1", "test");
  const SocketAddress far = parse_address("192.0.2.7:1", "test");
  const SocketAddress further = parse_address("192.0.2.8:1", "test");
  CHECK(link_place("shm", loopback, loopback, true, options).mark == "loopback");
  CHECK(link_place("tcp", loopback, loopback, true, options).mark == "loopback");
  CHECK(link_place("tcp", far, far, true, options).mark == "loopback");
  CHECK(link_place("tcp", far, further, true, options).mark == "virtual");
  CHECK(link_place("tcp", far, further, false, options).mark == "hardware");
  CHECK(link_place("tcp", loopback, loopback, true, options).kernel != "");
}

TEST_CASE("constants as a NIC") {
  LinkConstants c;
  c.rate_GBps = 1;
  c.round_trip_us = 40;
  c.rest_round_trip_us = 100;
  c.fragment_us = 0.5;
  c.operation_us = 40;
  NicSpec nic;
  fill_nic(c, Bandwidth::gbit_per_sec(10), nic);
  CHECK(nic.efficiency == doctest::Approx(0.8));
  CHECK(nic.message_rate == doctest::Approx(2e6));
  CHECK(nic.latency == std::chrono::microseconds(50));
  CHECK(nic.per_message == std::chrono::nanoseconds(500));
  CHECK(nic.per_doorbell == std::chrono::microseconds(10));
  // Fetches that take as long under a push have priority; those that take twice as long share.
  c.fetch_us = 100;
  c.fetch_under_push_us = 149;
  c.cpu = {2e-9, 5};
  fill_nic(c, Bandwidth::gbit_per_sec(10), nic);
  CHECK(nic.lane_priority);
  CHECK(to_seconds(nic.cpu_a_byte_sent) == doctest::Approx(2e-9).epsilon(1e-3));
  CHECK(to_seconds(nic.cpu_a_byte_received) == doctest::Approx(1e-6).epsilon(1e-3));
  c.fetch_under_push_us = 200;
  fill_nic(c, Bandwidth::gbit_per_sec(10), nic);
  CHECK(!nic.lane_priority);
  fill_nic(c, std::nullopt, nic);
  CHECK(nic.efficiency == 1);
  CHECK(nic.rate.bytes_per_sec() == doctest::Approx(1e9));
}

}  // namespace kvlane::live
