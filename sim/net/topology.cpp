#include "sim/net/topology.h"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/dijkstra_shortest_paths.hpp>
#include <limits>
#include <map>
#include <utility>

#include "sim/net/fluid_network.h"

namespace kvlane {
namespace {

struct Cable {
  LinkId link;
  Duration latency{0};
};

using Graph =
    boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, Cable>;
using Vertex = boost::graph_traits<Graph>::vertex_descriptor;

// How good a way is: fewer hops, then less latency, then the names of the nodes in order. The names
// are compared by rank; ways with equal hops have equally many.
struct Cost {
  std::int64_t hops = std::numeric_limits<std::int64_t>::max();
  std::int64_t latency = 0;
  std::vector<std::size_t> ranks;
  auto operator<=>(const Cost&) const = default;
};

}  // namespace

struct Topology::State {
  explicit State(FluidNetwork& fluid) : network(fluid) {}

  FluidNetwork& network;
  Graph graph;
  std::vector<std::string> names;
  std::map<std::string, NodeId> by_name;
  std::map<std::pair<NodeId, NodeId>, LinkId> links;
  std::vector<std::vector<LinkId>> links_at;
  std::vector<std::size_t> rank;  // of a node by name
  std::map<std::pair<NodeId, NodeId>, Route> routes;

  void add_direction(NodeId a, NodeId b, Bandwidth rate, Duration latency, bool lane_priority) {
    const LinkId link =
        network.add_link(names[a.index()] + "->" + names[b.index()], rate, lane_priority);
    boost::add_edge(a.index(), b.index(), Cable{link, latency}, graph);
    links[{a, b}] = link;
    links_at[a.index()].push_back(link);
    links_at[b.index()].push_back(link);
  }

  // One search gives the routes from a node to all others.
  void find_routes(NodeId from) {
    const std::size_t count = names.size();
    if (rank.size() != count) {
      rank.resize(count);
      std::size_t next = 0;
      for (const auto& [name, node] : by_name) rank[node.index()] = next++;
    }
    // Dijkstra wants a weight an edge; here it is the edge's cost with the node that it leads to.
    std::map<boost::graph_traits<Graph>::edge_descriptor, Cost> weights;
    for (const auto& edge : boost::make_iterator_range(boost::edges(graph))) {
      weights[edge] = Cost{1, graph[edge].latency.count(), {rank[boost::target(edge, graph)]}};
    }
    std::vector<Cost> cost(count);
    std::vector<Vertex> before(count);
    const auto add = [](const Cost& a, const Cost& b) {
      if (a.hops == std::numeric_limits<std::int64_t>::max()) return a;
      if (b.hops == std::numeric_limits<std::int64_t>::max()) return b;
      Cost sum{a.hops + b.hops, a.latency + b.latency, a.ranks};
      sum.ranks.insert(sum.ranks.end(), b.ranks.begin(), b.ranks.end());
      return sum;
    };
    boost::dijkstra_shortest_paths(
        graph, from.index(),
        boost::weight_map(boost::make_assoc_property_map(weights))
            .distance_map(boost::make_iterator_property_map(cost.begin(),
                                                            boost::get(boost::vertex_index, graph)))
            .predecessor_map(boost::make_iterator_property_map(
                before.begin(), boost::get(boost::vertex_index, graph)))
            .distance_compare([](const Cost& a, const Cost& b) { return a < b; })
            .distance_combine(add)
            .distance_zero(Cost{0, 0, {}})
            .distance_inf(Cost{}));
    for (std::size_t to = 0; to < count; ++to) {
      if (to == from.index() || before[to] == to) continue;
      Route route;
      route.latency = Duration(cost[to].latency);
      for (Vertex at = to; at != from.index(); at = before[at]) {
        route.links.push_back(links.at({NodeId(before[at]), NodeId(at)}));
      }
      std::reverse(route.links.begin(), route.links.end());
      routes.emplace(std::pair{from, NodeId(to)}, std::move(route));
    }
    routes.emplace(std::pair{from, from}, Route{});
  }
};

Topology::Topology(FluidNetwork& network) : state_(std::make_unique<State>(network)) {}
Topology::~Topology() = default;

NodeId Topology::add_node(std::string name) {
  State& s = *state_;
  KVLANE_CHECK(!s.by_name.contains(name), "two nodes are named {}", name);
  const NodeId node(boost::add_vertex(s.graph));
  s.by_name.emplace(name, node);
  s.names.push_back(std::move(name));
  s.links_at.emplace_back();
  s.routes.clear();
  return node;
}

void Topology::add_cable(NodeId a, NodeId b, Bandwidth rate, Duration latency, bool lane_priority) {
  State& s = *state_;
  KVLANE_CHECK(a.index() < s.names.size() && b.index() < s.names.size() && a != b,
               "a cable needs two nodes");
  KVLANE_CHECK(!s.links.contains({a, b}), "two cables between {} and {}", s.names[a.index()],
               s.names[b.index()]);
  KVLANE_CHECK(latency >= Duration::zero(), "latency of a cable is negative");
  s.add_direction(a, b, rate, latency, lane_priority);
  s.add_direction(b, a, rate, latency, lane_priority);
  s.routes.clear();
}

const Route& Topology::route(NodeId from, NodeId to) {
  State& s = *state_;
  if (!s.routes.contains({from, from})) s.find_routes(from);
  const auto found = s.routes.find({from, to});
  KVLANE_CHECK(found != s.routes.end(), "no way from {} to {}", name(from), name(to));
  return found->second;
}

bool Topology::connected(NodeId from, NodeId to) const {
  State& s = *state_;
  if (!s.routes.contains({from, from})) s.find_routes(from);
  return s.routes.contains({from, to});
}

LinkId Topology::link(NodeId from, NodeId to) const {
  const auto found = state_->links.find({from, to});
  KVLANE_CHECK(found != state_->links.end(), "no cable between {} and {}", name(from), name(to));
  return found->second;
}

const std::vector<LinkId>& Topology::links_at(NodeId node) const {
  return state_->links_at.at(node.index());
}

const std::string& Topology::name(NodeId node) const { return state_->names.at(node.index()); }

}  // namespace kvlane
