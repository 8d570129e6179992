#pragma once
// Max-min fair rates with strict priority of lanes. Flows of the same path, lane and cap always get
// the same rate: they form a bundle, and the solver works on bundles. Rates are found again only in
// the connected part of the network whose bundles or capacities changed.
//
// Definition. On a link that prioritises, a flow is bottlenecked when the link is full, no flow of
// its lane on it is faster, and no flow of a lower lane moves. On one that does not, all its flows
// count as one lane. Every flow runs at its cap or has a bottleneck. Where a flow crosses links of
// both kinds and shares the second kind with other lanes, the definition is implicit; it is solved
// by repeated filling (fill_mixed).

#include <cstdint>
#include <span>
#include <vector>

#include "sim/port/transport.h"

namespace kvlane {

class FairShare {
 public:
  using Index = std::uint32_t;
  struct Hop {
    Index link;
    Index place;  // in the link's list of active bundles
  };
  struct Bundle {
    double rate = 0;  // bit/s of each flow
    double cap = 0;   // bit/s of each flow, infinite: none
    std::uint32_t flows = 0;
    Lane lane = Lane::control;
    std::uint32_t mark = 0;
    std::uint32_t stage = 0;      // the filling in which it has no rate yet
    bool phantom = false;         // in that filling
    bool at_shared_link = false;  // bottleneck is a link without priority (fill_mixed)
    double limit = 0;             // what it can use elsewhere (fill_mixed)
    double previous = 0;          // rate of the round before (fill_mixed)
    std::vector<Hop> path;
  };
  struct Link {
    double capacity = 0;  // bit/s, infinite: never limits
    double load = 0;      // bit/s of all flows; infinite links: 0
    bool lane_priority = true;
    bool moving = false;  // a flow of rate > 0
    std::uint32_t mark = 0;
    std::uint32_t stage = 0;
    double residual = 0;  // while filling
    double unfrozen = 0;  // flows, while filling
    std::vector<Index> active;
  };

  Index add_link(double capacity, bool lane_priority);
  void set_capacity(Index link, double capacity);
  void set_lane_priority(Index link, bool lane_priority);
  Index add_bundle(std::span<const LinkId> path, Lane lane, double cap);
  // An idle bundle gets a new path and cap; keeps its storage.
  void reuse_bundle(Index bundle, std::span<const LinkId> path, Lane lane, double cap);
  // The number of flows changed; 0 leaves the network.
  void set_flows(Index bundle, std::uint32_t flows);

  bool dirty() const { return !dirty_bundles_.empty() || !dirty_links_.empty(); }
  // Finds the rates of every part that changed. touched_*() then name what lies in those parts.
  void solve();
  std::span<const Index> touched_bundles() const { return touched_bundles_; }
  std::span<const Index> touched_links() const { return touched_links_; }

  const Bundle& bundle(Index b) const { return bundles_[b]; }
  const Link& link(Index l) const { return links_[l]; }
  std::size_t link_count() const { return links_.size(); }

 private:
  struct Part {  // a connected part: ranges of the touched lists
    std::size_t first_bundle, first_link;
  };
  void collect(Part part);
  bool solve_alone(Part part);
  void solve_part(Part part);
  void fill_lanes(std::span<const Index> part);
  void fill_mixed(std::span<const Index> part, std::span<const Index> links);
  void fill(std::span<const Index> stage, std::span<const Index> phantoms);
  void enter(Index b, bool phantom);
  void freeze(Index b, double rate);
  void reset_residual(std::span<const Index> part, std::span<const Index> links);
  void touch_link(Index l);

  std::vector<Link> links_;
  std::vector<Bundle> bundles_;
  std::vector<Index> dirty_bundles_, dirty_links_;
  std::vector<Index> touched_bundles_, touched_links_;
  std::vector<Index> stage_, phantoms_, stage_links_;
  std::uint32_t mark_ = 0;
  std::uint32_t stage_mark_ = 0;
};

}  // namespace kvlane
