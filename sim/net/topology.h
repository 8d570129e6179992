#pragma once
// Who is wired to whom (Boost.Graph): NIC ports and switches as nodes, cables as edges with a rate
// and a latency, full duplex. Routes are shortest by (hops, latency, name): the same in every run.

#include <memory>
#include <string>
#include <vector>

#include "sim/base/strong_id.h"
#include "sim/base/units.h"

namespace kvlane {

class FluidNetwork;

using NodeId = StrongId<struct NodeTag>;

struct Route {
  std::vector<LinkId> links;  // directed, in order; the ports of both ends included
  Duration latency{0};
};

class Topology {
 public:
  explicit Topology(FluidNetwork& network);
  ~Topology();
  Topology(const Topology&) = delete;
  Topology& operator=(const Topology&) = delete;

  // A node's name is unique; a second one is a broken invariant.
  NodeId add_node(std::string name);
  // Two directed links, `name` with "->" between the node names. Rate may be unlimited.
  void add_cable(NodeId a, NodeId b, Bandwidth rate, Duration latency, bool lane_priority);
  // The way from a node to itself is empty. Throws std::logic_error when there is none; the
  // scenario reader asks connected() first.
  const Route& route(NodeId from, NodeId to);
  bool connected(NodeId from, NodeId to) const;
  // The directed link of a cable, for scheduled degradation.
  LinkId link(NodeId from, NodeId to) const;
  // Both directions of every cable at `node`, in the order of adding.
  const std::vector<LinkId>& links_at(NodeId node) const;
  const std::string& name(NodeId node) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvlane
