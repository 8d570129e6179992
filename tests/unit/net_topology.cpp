// Routes and cables.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "sim/des/virtual_loop.h"
#include "sim/net/fluid_network.h"
#include "sim/net/topology.h"

namespace kvlane {
namespace {

using namespace literals;

struct Fixture {
  VirtualLoop loop;
  FluidNetwork network{loop};
  Topology topology{network};
  std::vector<std::string> way(NodeId from, NodeId to) {
    std::vector<std::string> names;
    for (const LinkId link : topology.route(from, to).links) names.push_back(network.name(link));
    return names;
  }
};

TEST_CASE("a route is a list of directed links with the sum of their latencies") {
  Fixture f;
  const NodeId a = f.topology.add_node("a");
  const NodeId s = f.topology.add_node("s");
  const NodeId b = f.topology.add_node("b");
  f.topology.add_cable(a, s, 32_Gbps, 500_ns, true);
  f.topology.add_cable(s, b, 25_Gbps, 700_ns, true);
  CHECK(f.way(a, b) == std::vector<std::string>{"a->s", "s->b"});
  CHECK(f.way(b, a) == std::vector<std::string>{"b->s", "s->a"});
  CHECK(f.topology.route(a, b).latency == 1200_ns);
  CHECK(f.topology.route(a, a).links.empty());
  CHECK(f.topology.link(s, b) != f.topology.link(b, s));
  CHECK(f.network.capacity(f.topology.link(b, s)) == 25_Gbps);
}

TEST_CASE("fewer hops come before less latency") {
  Fixture f;
  const NodeId a = f.topology.add_node("a");
  const NodeId b = f.topology.add_node("b");
  const NodeId s = f.topology.add_node("s");
  f.topology.add_cable(a, s, 1_Gbps, 1_ns, true);
  f.topology.add_cable(s, b, 1_Gbps, 1_ns, true);
  f.topology.add_cable(a, b, 1_Gbps, 1000_ns, true);
  CHECK(f.way(a, b) == std::vector<std::string>{"a->b"});
}

TEST_CASE("less latency comes before the name, the name decides the rest") {
  Fixture f;
  const NodeId a = f.topology.add_node("a");
  const NodeId z = f.topology.add_node("z");
  // In an order that would pick the wrong one if nothing but the order of adding decided.
  const NodeId s3 = f.topology.add_node("s3");
  const NodeId s2 = f.topology.add_node("s2");
  const NodeId s1 = f.topology.add_node("s1");
  for (const NodeId s : {s3, s2, s1}) {
    f.topology.add_cable(a, s, 1_Gbps, s == s1 ? 6_ns : 5_ns, true);
    f.topology.add_cable(s, z, 1_Gbps, 5_ns, true);
  }
  CHECK(f.way(a, z) == std::vector<std::string>{"a->s2", "s2->z"});
}

TEST_CASE("several hops over an oversubscribed uplink") {
  // Two racks; four senders of 25 Gbit/s share one 40 Gbit/s uplink: 10 each, 1 MB takes 0.8 ms.
  Fixture f;
  const NodeId left = f.topology.add_node("left");
  const NodeId spine = f.topology.add_node("spine");
  const NodeId right = f.topology.add_node("right");
  f.topology.add_cable(left, spine, 40_Gbps, 1_us, true);
  f.topology.add_cable(spine, right, 40_Gbps, 1_us, true);
  int ended = 0;
  for (int i = 0; i < 4; ++i) {
    const NodeId from = f.topology.add_node(fmt::format("p{}", i));
    const NodeId to = f.topology.add_node(fmt::format("d{}", i));
    f.topology.add_cable(from, left, 25_Gbps, 1_us, true);
    f.topology.add_cable(to, right, 25_Gbps, 1_us, true);
    const Route& route = f.topology.route(from, to);
    CHECK(route.links.size() == 4);
    CHECK(route.latency == 4_us);
    f.network.start({route.links, Bytes(1'000'000)},
                    {[](void* n, std::uint64_t) { ++*static_cast<int*>(n); }, &ended, 0});
  }
  f.loop.run();
  CHECK(ended == 4);
  CHECK(f.loop.now().time_since_epoch() == 800_us);
}

TEST_CASE("what cannot be") {
  Fixture f;
  const NodeId a = f.topology.add_node("a");
  const NodeId b = f.topology.add_node("b");
  const NodeId c = f.topology.add_node("c");
  CHECK_THROWS_AS(f.topology.add_node("a"), std::logic_error);
  f.topology.add_cable(a, b, 1_Gbps, 0_ns, true);
  CHECK_THROWS_AS(f.topology.add_cable(b, a, 1_Gbps, 0_ns, true), std::logic_error);
  CHECK_FALSE(f.topology.connected(a, c));
  CHECK(f.topology.connected(b, a));
  CHECK_THROWS_AS(f.topology.route(a, c), std::logic_error);
  CHECK_THROWS_AS(f.topology.link(a, c), std::logic_error);
  // A cable added later is found.
  f.topology.add_cable(b, c, 1_Gbps, 0_ns, true);
  CHECK(f.topology.connected(a, c));
}

}  // namespace
}  // namespace kvlane
