// Lanes: strict priority, links without it, and paths over both kinds.

#include <doctest/doctest.h>

#include <vector>

#include "sim/des/virtual_loop.h"
#include "sim/net/fluid_network.h"

namespace kvlane {
namespace {

using namespace literals;

struct Net {
  VirtualLoop loop;
  FluidNetwork network{loop};
  std::vector<TimePoint> end = std::vector<TimePoint>(16, kNever);
  FlowId start(std::uint64_t name, std::vector<LinkId> path, Bytes bytes, Lane lane) {
    return network.start({path, bytes, lane}, {[](void* self, std::uint64_t n) {
                                                 auto& net = *static_cast<Net*>(self);
                                                 net.end[n] = net.loop.now();
                                               },
                                               this, name});
  }
  Duration took(std::uint64_t name) const { return end[name].time_since_epoch(); }
};

TEST_CASE("a higher lane takes the whole port; the lower waits") {
  // 8 Gbit/s = 1 B/ns. control 1000 B, on_demand 2000 B, speculative 500 B, all at 0: one after the
  // other, ends at 1000, 3000, 3500 ns.
  Net net;
  const LinkId link = net.network.add_link("port", 8_Gbps);
  net.start(2, {link}, Bytes(500), Lane::speculative);
  net.start(1, {link}, Bytes(2000), Lane::on_demand);
  net.start(0, {link}, Bytes(1000), Lane::control);
  net.loop.run();
  CHECK(net.took(0) == 1000_ns);
  CHECK(net.took(1) == 3000_ns);
  CHECK(net.took(2) == 3500_ns);
  const LinkUsage usage = net.network.usage(link);
  CHECK(usage.bytes[index(Lane::control)] == Bytes(1000));
  CHECK(usage.bytes[index(Lane::on_demand)] == Bytes(2000));
  CHECK(usage.bytes[index(Lane::proactive)] == Bytes(0));
  CHECK(usage.bytes[index(Lane::speculative)] == Bytes(500));
  CHECK(usage.busy == 3500_ns);
}

TEST_CASE("a lower lane gets what a higher one cannot use") {
  // on_demand is held to 2 by a thin uplink; speculative gets the other 6 of 8 Gbit/s.
  Net net;
  const LinkId thin = net.network.add_link("thin", 2_Gbps);
  const LinkId port = net.network.add_link("port", 8_Gbps);
  const FlowId high = net.start(0, {thin, port}, Bytes(1000), Lane::on_demand);
  const FlowId low = net.start(1, {port}, Bytes(1000), Lane::speculative);
  CHECK(net.network.rate(high) == 2_Gbps);
  CHECK(net.network.rate(low) == 6_Gbps);
}

TEST_CASE("without priority all lanes share alike") {
  // 1000 and 2000 B over 1 B/ns: the first ends at 2000 ns, the second has 1000 left: 3000 ns.
  Net net;
  const LinkId link = net.network.add_link("port", 8_Gbps, false);
  net.start(0, {link}, Bytes(2000), Lane::control);
  net.start(1, {link}, Bytes(1000), Lane::speculative);
  net.loop.run();
  CHECK(net.took(1) == 2000_ns);
  CHECK(net.took(0) == 3000_ns);
}

TEST_CASE("mixed: the uplink shares alike, the port does not") {
  // Uplink 16, no priority: A (proactive) and B (speculative). Port 10, priority: A, B, and
  // C (proactive) from elsewhere. On the port the proactive two come first: 5 each, B gets nothing.
  // On the uplink A could have 8, so 5 is what the port says, and B is at 0 for the port's sake.
  Net net;
  const LinkId uplink = net.network.add_link("uplink", 16_Gbps, false);
  const LinkId port = net.network.add_link("port", 10_Gbps, true);
  const FlowId a = net.start(0, {uplink, port}, Bytes(1'000'000), Lane::proactive);
  const FlowId b = net.start(1, {uplink, port}, Bytes(1'000'000), Lane::speculative);
  const FlowId c = net.start(2, {port}, Bytes(1'000'000), Lane::proactive);
  CHECK(net.network.rate(a) == 5_Gbps);
  CHECK(net.network.rate(b) == 0_Gbps);
  CHECK(net.network.rate(c) == 5_Gbps);
}

TEST_CASE("mixed: a lower lane takes its half of an uplink without priority") {
  // Uplink 8 without priority, port 10 with. A (on_demand) and B (speculative) both cross the
  // uplink: 4 each, and the port has room for both. C (proactive) on the port gets 10 - 4 = 6 minus
  // nothing for B, which is below it: B keeps only what the port leaves, 10 - 4 - 6 = 0; then A may
  // use the whole uplink: 8, C 2, B 0.
  Net net;
  const LinkId uplink = net.network.add_link("uplink", 8_Gbps, false);
  const LinkId port = net.network.add_link("port", 10_Gbps, true);
  const FlowId a = net.start(0, {uplink, port}, Bytes(1'000'000), Lane::on_demand);
  const FlowId b = net.start(1, {uplink, port}, Bytes(1'000'000), Lane::speculative);
  CHECK(net.network.rate(a) == 4_Gbps);
  CHECK(net.network.rate(b) == 4_Gbps);
  const FlowId c = net.start(2, {port}, Bytes(1'000'000), Lane::proactive);
  CHECK(net.network.rate(a) == 8_Gbps);
  CHECK(net.network.rate(c) == 2_Gbps);
  CHECK(net.network.rate(b) == 0_Gbps);
}

TEST_CASE("mixed: lanes that meet on a shared uplink and part at their ports") {
  // A (control) and B (speculative) share an uplink of 8 without priority; B's port is 1, where
  // D (proactive) runs too and takes all of it. So B is 0 and A gets the uplink: 8.
  Net net;
  const LinkId uplink = net.network.add_link("uplink", 8_Gbps, false);
  const LinkId port = net.network.add_link("port", 1_Gbps, true);
  const FlowId a = net.start(0, {uplink}, Bytes(1'000'000), Lane::control);
  const FlowId b = net.start(1, {uplink, port}, Bytes(1'000'000), Lane::speculative);
  CHECK(net.network.rate(a) == 7_Gbps);
  CHECK(net.network.rate(b) == 1_Gbps);
  net.start(3, {port}, Bytes(1'000'000), Lane::proactive);
  CHECK(net.network.rate(a) == 8_Gbps);
  CHECK(net.network.rate(b) == 0_Gbps);
}

}  // namespace
}  // namespace kvlane
