#include "sim/net/fair_share.h"

#include <algorithm>
#include <limits>

#include "sim/base/check.h"

namespace kvlane {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
// Rounds of fill_mixed; the usual case settles after two.
constexpr int kMixedRounds = 16;

}  // namespace

FairShare::Index FairShare::add_link(double capacity, bool lane_priority) {
  Link& link = links_.emplace_back();
  link.capacity = capacity;
  link.lane_priority = lane_priority;
  return static_cast<Index>(links_.size() - 1);
}

void FairShare::set_capacity(Index link, double capacity) {
  links_[link].capacity = capacity;
  dirty_links_.push_back(link);
}

void FairShare::set_lane_priority(Index link, bool lane_priority) {
  links_[link].lane_priority = lane_priority;
  dirty_links_.push_back(link);
}

FairShare::Index FairShare::add_bundle(std::span<const LinkId> path, Lane lane, double cap) {
  bundles_.emplace_back();
  const auto bundle = static_cast<Index>(bundles_.size() - 1);
  reuse_bundle(bundle, path, lane, cap);
  return bundle;
}

void FairShare::reuse_bundle(Index b, std::span<const LinkId> path, Lane lane, double cap) {
  Bundle& bundle = bundles_[b];
  KVLANE_CHECK(bundle.flows == 0, "bundle {} is in use", b);
  bundle.path.clear();
  for (const LinkId id : path) {
    KVLANE_CHECK(id.index() < links_.size(), "no link {}", id.value());
    const bool twice = std::any_of(bundle.path.begin(), bundle.path.end(),
                                   [&](const Hop& hop) { return hop.link == id.value(); });
    KVLANE_CHECK(!twice, "link {} twice in a path", id.value());
    bundle.path.push_back({id.value(), 0});
  }
  bundle.lane = lane;
  bundle.cap = cap;
  bundle.rate = 0;
}

void FairShare::set_flows(Index b, std::uint32_t flows) {
  Bundle& bundle = bundles_[b];
  if (bundle.flows == 0 && flows > 0) {
    for (Hop& hop : bundle.path) {
      std::vector<Index>& active = links_[hop.link].active;
      hop.place = static_cast<Index>(active.size());
      active.push_back(b);
    }
  } else if (bundle.flows > 0 && flows == 0) {
    for (const Hop& hop : bundle.path) {
      std::vector<Index>& active = links_[hop.link].active;
      const Index moved = active.back();
      active[hop.place] = moved;
      active.pop_back();
      if (moved != b) {
        for (Hop& other : bundles_[moved].path) {
          if (other.link == hop.link) other.place = hop.place;
        }
      }
      dirty_links_.push_back(hop.link);
    }
    bundle.rate = 0;
  }
  bundle.flows = flows;
  if (flows > 0) dirty_bundles_.push_back(b);
}

void FairShare::touch_link(Index l) {
  if (links_[l].mark == mark_) return;
  links_[l].mark = mark_;
  touched_links_.push_back(l);
}

void FairShare::solve() {
  ++mark_;
  touched_bundles_.clear();
  touched_links_.clear();
  const auto seed = [this] { return Part{touched_bundles_.size(), touched_links_.size()}; };
  for (const Index b : dirty_bundles_) {
    if (bundles_[b].flows == 0 || bundles_[b].mark == mark_) continue;
    const Part part = seed();
    bundles_[b].mark = mark_;
    touched_bundles_.push_back(b);
    solve_part(part);
  }
  for (const Index l : dirty_links_) {
    if (links_[l].mark == mark_) continue;
    const Part part = seed();
    touch_link(l);
    // An infinite link does not join its flows into one part, but one that became infinite must
    // free each of them.
    for (const Index b : links_[l].active) {
      if (bundles_[b].mark == mark_) continue;
      bundles_[b].mark = mark_;
      touched_bundles_.push_back(b);
    }
    solve_part(part);
  }
  dirty_bundles_.clear();
  dirty_links_.clear();
  for (const Index l : touched_links_) {
    Link& link = links_[l];
    link.load = 0;
    link.moving = false;
    for (const Index b : link.active) {
      const Bundle& bundle = bundles_[b];
      link.moving = link.moving || bundle.rate > 0;
      link.load += bundle.rate * static_cast<double>(bundle.flows);
    }
    if (!(link.capacity < kInfinite)) link.load = 0;
  }
}

void FairShare::solve_part(Part part) {
  if (solve_alone(part)) return;
  collect(part);
  const auto bundles = std::span<const Index>(touched_bundles_).subspan(part.first_bundle);
  const auto links = std::span<const Index>(touched_links_).subspan(part.first_link);
  if (bundles.empty()) return;
  // Without two lanes, or without links of both kinds, one or four plain fillings do.
  bool lanes_differ = false;
  for (const Index b : bundles) {
    lanes_differ = lanes_differ || bundles_[b].lane != bundles_[bundles[0]].lane;
  }
  bool priority = false;
  bool shared = false;
  for (const Index l : links) {
    if (!(links_[l].capacity < kInfinite)) continue;
    (links_[l].lane_priority ? priority : shared) = true;
  }
  if (lanes_differ && priority && shared) {
    fill_mixed(bundles, links);
    return;
  }
  reset_residual({}, links);
  if (lanes_differ && priority) {
    fill_lanes(bundles);
  } else {
    fill(bundles, {});
  }
}

// One bundle alone on all of its links: the common case of a single busy port.
bool FairShare::solve_alone(Part part) {
  if (touched_bundles_.size() != part.first_bundle + 1) return false;
  Bundle& bundle = bundles_[touched_bundles_[part.first_bundle]];
  double rate = bundle.cap;
  const auto flows = static_cast<double>(bundle.flows);
  for (const Hop& hop : bundle.path) {
    const Link& link = links_[hop.link];
    if (link.active.size() != 1) return false;
    rate = std::min(rate, link.capacity / flows);
  }
  for (const Hop& hop : bundle.path) touch_link(hop.link);
  bundle.rate = rate;
  return true;
}

// Everything that shares a finite link, directly or through others, with what the part holds.
void FairShare::collect(Part part) {
  std::size_t next = part.first_bundle;
  while (next < touched_bundles_.size()) {
    const Index b = touched_bundles_[next++];
    for (const Hop& hop : bundles_[b].path) {
      Link& link = links_[hop.link];
      const bool seen = link.mark == mark_;
      touch_link(hop.link);
      if (seen || !(link.capacity < kInfinite)) continue;
      for (const Index other : link.active) {
        if (bundles_[other].mark == mark_) continue;
        bundles_[other].mark = mark_;
        touched_bundles_.push_back(other);
      }
    }
  }
}

// What the links have left when `part` runs at its rates.
void FairShare::reset_residual(std::span<const Index> part, std::span<const Index> links) {
  for (const Index l : links) links_[l].residual = links_[l].capacity;
  for (const Index b : part) {
    const Bundle& bundle = bundles_[b];
    for (const Hop& hop : bundle.path) {
      double& residual = links_[hop.link].residual;
      residual = std::max(0.0, residual - bundle.rate * static_cast<double>(bundle.flows));
    }
  }
}

void FairShare::fill_lanes(std::span<const Index> part) {
  for (int lane = 0; lane < kLaneCount; ++lane) {
    stage_.clear();
    for (const Index b : part) {
      if (static_cast<int>(bundles_[b].lane) == lane) stage_.push_back(b);
    }
    if (!stage_.empty()) fill(stage_, {});
  }
}

// Lanes in order; on links without priority the lower lanes compete as phantoms that take no more
// than they could use in the round before. Repeated until nothing changes; the last pass hands out
// what phantoms kept, so that no capacity is wasted even where the rounds ran out.
void FairShare::fill_mixed(std::span<const Index> part, std::span<const Index> links) {
  for (const Index b : part) {
    bundles_[b].limit = bundles_[b].cap;
    bundles_[b].previous = -1;
  }
  std::vector<Index> fixed;
  for (int round = 0; round < kMixedRounds; ++round) {
    fixed.clear();
    for (int lane = 0; lane < kLaneCount; ++lane) {
      stage_.clear();
      phantoms_.clear();
      for (const Index b : part) {
        if (static_cast<int>(bundles_[b].lane) == lane) stage_.push_back(b);
        if (static_cast<int>(bundles_[b].lane) > lane) phantoms_.push_back(b);
      }
      if (stage_.empty()) continue;
      reset_residual(fixed, links);
      fill(stage_, phantoms_);
      fixed.insert(fixed.end(), stage_.begin(), stage_.end());
    }
    bool changed = false;
    for (const Index b : part) {
      Bundle& bundle = bundles_[b];
      changed = changed || bundle.rate != bundle.previous;
      bundle.previous = bundle.rate;
      bundle.limit = bundle.at_shared_link ? bundle.cap : bundle.rate;
    }
    if (!changed) break;
  }
  reset_residual(part, links);
  for (const Index b : part) {
    Bundle& bundle = bundles_[b];
    bundle.previous = bundle.rate;
    bundle.limit = bundle.cap;
    if (bundle.rate < kInfinite) bundle.cap -= bundle.rate;
  }
  fill_lanes(part);
  for (const Index b : part) {
    Bundle& bundle = bundles_[b];
    bundle.cap = bundle.limit;
    if (bundle.previous < kInfinite) bundle.rate += bundle.previous;
  }
}

void FairShare::enter(Index b, bool phantom) {
  Bundle& bundle = bundles_[b];
  bundle.stage = stage_mark_;
  bundle.phantom = phantom;
  if (!phantom) bundle.at_shared_link = false;
  for (const Hop& hop : bundle.path) {
    Link& link = links_[hop.link];
    if (!(link.capacity < kInfinite) || (phantom && link.lane_priority)) continue;
    if (link.stage != stage_mark_) {
      link.stage = stage_mark_;
      link.unfrozen = 0;
      stage_links_.push_back(hop.link);
    }
    link.unfrozen += static_cast<double>(bundle.flows);
  }
}

void FairShare::freeze(Index b, double rate) {
  Bundle& bundle = bundles_[b];
  bundle.stage = 0;
  if (!bundle.phantom) bundle.rate = rate;
  const auto flows = static_cast<double>(bundle.flows);
  for (const Hop& hop : bundle.path) {
    Link& link = links_[hop.link];
    if (!(link.capacity < kInfinite) || (bundle.phantom && link.lane_priority)) continue;
    link.residual = std::max(0.0, link.residual - rate * flows);
    link.unfrozen -= flows;
  }
}

// Progressive filling of `stage` into the residual capacities: the tightest link or cap freezes its
// flows, until none is left. Phantoms count on links without priority only. Ties: the lower link.
void FairShare::fill(std::span<const Index> stage, std::span<const Index> phantoms) {
  ++stage_mark_;
  stage_links_.clear();
  std::size_t left = stage.size();
  bool capped = !phantoms.empty();
  for (const Index b : stage) {
    enter(b, false);
    capped = capped || bundles_[b].cap < kInfinite;
  }
  for (const Index b : phantoms) enter(b, true);
  while (left > 0) {
    double level = kInfinite;
    Index tightest = 0;
    for (const Index l : stage_links_) {
      const Link& link = links_[l];
      if (!(link.unfrozen > 0)) continue;
      const double share = link.residual / link.unfrozen;
      if (share < level || (share == level && l < tightest)) {
        level = share;
        tightest = l;
      }
    }
    double cap = kInfinite;
    if (capped) {
      for (const Index b : stage) {
        if (bundles_[b].stage == stage_mark_) cap = std::min(cap, bundles_[b].cap);
      }
      for (const Index b : phantoms) {
        if (bundles_[b].stage == stage_mark_) cap = std::min(cap, bundles_[b].limit);
      }
    }
    if (!(level < cap)) {  // also: nothing limits the rest
      for (const Index b : stage) {
        if (bundles_[b].stage != stage_mark_ || bundles_[b].cap > cap) continue;
        freeze(b, cap);
        --left;
      }
      for (const Index b : phantoms) {
        if (bundles_[b].stage == stage_mark_ && !(bundles_[b].limit > cap)) freeze(b, cap);
      }
      continue;
    }
    const bool shared = !links_[tightest].lane_priority;
    for (const Index b : links_[tightest].active) {
      Bundle& bundle = bundles_[b];
      if (bundle.stage != stage_mark_ || (bundle.phantom && !shared)) continue;
      freeze(b, level);
      if (bundle.phantom) continue;
      bundle.at_shared_link = shared;
      --left;
    }
    links_[tightest].unfrozen = 0;
    links_[tightest].residual = 0;
  }
}

}  // namespace kvlane
