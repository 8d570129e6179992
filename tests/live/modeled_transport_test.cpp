// The modelled network with bytes keeps what every wire must keep.

#include "calibrate/live/transport/carrying_transport.h"
#include "sim/des/virtual_loop.h"
#include "sim/net/sim_transport.h"
#include "sim/run/strategy_run.h"
#include "tests/live/conformance.h"

namespace kvlane::live::test {
namespace {

// As Pair, on the modelled network and its clock.
class ModeledPair {
 public:
  struct End {
    explicit End(std::optional<CarryingTransport>& both)
        : pool(kConformBytes), regions(pool), transport(both) {
      regions.create(kRegion, kConformBytes);
    }
    // One transport serves both ends.
    struct Shared {
      explicit Shared(std::optional<CarryingTransport>& b) : both(b) {}
      std::optional<CarryingTransport>& both;
      TransferId post(const TransferSpec& spec, Callback done) { return both->post(spec, done); }
      bool cancel(TransferId transfer) { return both->cancel(transfer); }
    };
    Pool pool;
    RegionTable regions;
    Shared transport;
    Witness witness;
    std::string lost;
  };

  ModeledPair() : network_(loop_), topology_(network_), sim_(loop_, network_, topology_, &trace_) {
    const NodeId a = topology_.add_node("a");
    const NodeId b = topology_.add_node("b");
    NicSpec nic;
    nic.name = "nic";
    nic.rate = Bandwidth::gbit_per_sec(10);
    nic.latency = std::chrono::microseconds(5);
    topology_.add_cable(a, b, nic.rate, std::chrono::microseconds(1), true);
    for (const NodeId node : {a, b}) sim_.add_endpoint(node, nic);
    std::vector<CarryingTransport::End> all;
    for (std::size_t e : {0U, 1U}) {
      ends[e] = std::make_unique<End>(transport_);
      all.push_back({&ends[e]->regions, &ends[e]->witness});
    }
    transport_.emplace(sim_, all);
    for (std::size_t e : {0U, 1U}) transport_->set_handler(EndpointId(e), &ends[e]->witness);
    trace_.to = &ends[0]->witness;
    fill_pattern(kConformSeed, 0, ends[0]->regions.bytes_of(kRegion));
  }

  TimePoint clock() const { return loop_.now(); }
  void settle() { loop_.run(); }
  const CarryingTransport& transport() const { return *transport_; }

  std::array<std::unique_ptr<End>, 2> ends;

 private:
  struct Trace final : TraceSink {
    TraceSink* to = nullptr;
    void record(const TraceRecord& r) override { to->record(r); }
  };
  VirtualLoop loop_;
  FluidNetwork network_;
  Topology topology_;
  Trace trace_;
  SimTransport sim_;
  std::optional<CarryingTransport> transport_;
};

std::unique_ptr<ModeledPair> fresh(ConnectionOptions = {}) {
  return std::make_unique<ModeledPair>();
}

}  // namespace

TEST_CASE("modeled: conformance to the port, on bytes") { conform_to_port(fresh); }

TEST_CASE("modeled: bytes are not there before the network says so") {
  const auto pair = fresh();
  const auto pieces = scattered(4, 4096, 8192);
  Statuses done;
  pair->ends[0]->transport.post(spec_of(0, TransferOp::write, pieces), done.note(0));
  CHECK(holds_zeros(*pair->ends[1], 0, 4096));
  pair->settle();
  CHECK(done.all_ok());
  CHECK(holds_pattern(*pair->ends[1], pieces, kConformSeed));
  CHECK(pair->transport().carried_bytes() == 4 * 4096);
  CHECK(pair->transport().in_flight() == 0);
}

TEST_CASE("modeled: what is cancelled before it has left does not arrive") {
  const auto pair = fresh();
  const auto first = scattered(1, 1 << 20, 1 << 20);
  const auto second = scattered(1, 4096, 4096, 1 << 21);
  Statuses done;
  pair->ends[0]->transport.post(spec_of(0, TransferOp::write, first), done.note(0));
  const TransferId late =
      pair->ends[0]->transport.post(spec_of(0, TransferOp::write, second), done.note(1));
  CHECK(pair->ends[0]->transport.cancel(late));
  pair->settle();
  REQUIRE(done.status.size() == 2);
  CHECK(std::count(done.status.begin(), done.status.end(), TransferStatus::cancelled) == 1);
  CHECK(holds_pattern(*pair->ends[1], first, kConformSeed));
  CHECK(holds_zeros(*pair->ends[1], 1 << 21, 4096));
}

TEST_CASE("modeled: a message that names what is not there ends the run") {
  const auto pair = fresh();
  TransferSpec tell = spec_of(0, TransferOp::send, {}, Lane::control);
  tell.message.kind = MessageKind::release;  // what the test's inspector refuses
  Statuses done;
  pair->ends[0]->transport.post(tell, done.note(0));
  CHECK_THROWS_WITH_AS(pair->settle(), "endpoint 0 released what was never there", RunError);
}

}  // namespace kvlane::live::test
