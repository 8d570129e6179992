// 200 random topologies and flow sets without lanes, in SimGrid and here: every flow must take the
// same time. SimGrid's model is CM02 with latency 0, TCP-gamma 0 and cross traffic 0,
// its factors 1 and weight-S 0: plain max-min sharing. All cases run in one engine, side by side,
// since SimGrid has one engine a process; they share no link.

#include <cstdio>

#ifndef KVLANE_HAVE_SIMGRID
int main() {
  std::puts("SKIP: SimGrid (libsimgrid-dev) was not found when this was configured");
  return 77;
}
#else

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

#include "sim/base/rng.h"
#include "sim/des/virtual_loop.h"
#include "sim/net/fluid_network.h"

namespace {

namespace sg = simgrid::s4u;

constexpr int kCases = 200;
constexpr double kTolerance = 1e-5;  // of its duration; the two agree to about 1e-9

struct Flow {
  double start = 0;  // seconds
  std::vector<std::size_t> path;
  std::int64_t bytes = 0;
  std::int64_t cap = 0;  // bit/s, 0: none
};

struct Case {
  std::vector<std::int64_t> links;  // bit/s
  std::vector<Flow> flows;
};

// Up to 12 links of 0.8 to 80 Gbit/s, up to 24 flows over 1 to 5 of them; a third of the cases
// sends everything through one port as well, some starts are equal, some flows have a cap.
Case draw(int number) {
  kvlane::Rng rng(11, fmt::format("simgrid/{}", number));
  Case c;
  const std::uint64_t link_count = 1 + rng.below(12);
  for (std::uint64_t l = 0; l < link_count; ++l) {
    c.links.push_back(800'000'000 * static_cast<std::int64_t>(1 + rng.below(100)));
  }
  const bool incast = number % 3 == 0;
  const std::uint64_t flow_count = 1 + rng.below(24);
  for (std::uint64_t f = 0; f < flow_count; ++f) {
    Flow flow;
    flow.start = static_cast<double>(rng.below(20)) * 0.05;
    std::vector<std::size_t> all(link_count);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
    for (std::size_t i = all.size(); i-- > 1;) std::swap(all[i], all[rng.below(i + 1)]);
    const std::uint64_t hops = std::min<std::uint64_t>(link_count, 1 + rng.below(5));
    flow.path.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(hops));
    if (incast && std::find(flow.path.begin(), flow.path.end(), 0U) == flow.path.end()) {
      flow.path.push_back(0);
    }
    flow.bytes = 1'000'000 * static_cast<std::int64_t>(1 + rng.below(2000));
    if (rng.below(4) == 0) flow.cap = 80'000'000 * static_cast<std::int64_t>(1 + rng.below(100));
    c.flows.push_back(std::move(flow));
  }
  return c;
}

struct Ends {
  std::vector<double> end;
  std::size_t left = 0;
};

std::vector<double> run_here(const Case& c) {
  struct Run {
    kvlane::VirtualLoop loop;
    kvlane::FluidNetwork network{loop};
    std::vector<kvlane::LinkId> links;
    const Case* input;
    std::vector<double> end;
    static void start(void* self, std::uint64_t f) {
      auto& run = *static_cast<Run*>(self);
      const Flow& flow = run.input->flows[f];
      std::vector<kvlane::LinkId> path;
      for (const std::size_t l : flow.path) path.push_back(run.links[l]);
      const auto cap =
          flow.cap > 0 ? kvlane::Bandwidth::bits_per_sec(flow.cap) : kvlane::Bandwidth::unlimited();
      run.network.start({path, kvlane::Bytes(flow.bytes), kvlane::Lane::proactive, cap},
                        {&Run::ended, self, f});
    }
    static void ended(void* self, std::uint64_t f) {
      auto& run = *static_cast<Run*>(self);
      run.end[f] = kvlane::to_seconds(run.loop.now());
    }
  } run;
  run.input = &c;
  run.end.assign(c.flows.size(), std::numeric_limits<double>::quiet_NaN());
  for (const std::int64_t rate : c.links) {
    run.links.push_back(run.network.add_link("link", kvlane::Bandwidth::bits_per_sec(rate)));
  }
  for (std::size_t f = 0; f < c.flows.size(); ++f) {
    run.loop.schedule_at(kvlane::TimePoint(kvlane::seconds_to_duration(c.flows[f].start)),
                         {&Run::start, &run, f});
  }
  run.loop.run();
  return run.end;
}

std::vector<std::vector<double> > run_simgrid(const std::vector<Case>& cases, int argc,
                                              char** argv) {
  sg::Engine engine(&argc, argv);
  for (const char* setting :
       {"network/model:CM02", "network/TCP-gamma:0", "network/crosstraffic:0",
        "network/latency-factor:1", "network/bandwidth-factor:1", "network/weight-S:0"}) {
    sg::Engine::set_config(setting);
  }
  struct Start {
    double at;
    std::size_t number, flow;
    sg::Host *from, *to;
  };
  std::vector<Start> starts;
  sg::NetZone* zone = sg::create_full_zone("all");
  for (std::size_t n = 0; n < cases.size(); ++n) {
    std::vector<sg::Link*> links;
    for (std::size_t l = 0; l < cases[n].links.size(); ++l) {
      links.push_back(zone->create_link(fmt::format("l{}_{}", n, l),
                                        static_cast<double>(cases[n].links[l]) / 8));
    }
    for (std::size_t f = 0; f < cases[n].flows.size(); ++f) {
      const Flow& flow = cases[n].flows[f];
      const std::string name = fmt::format("{}_{}", n, f);
      sg::Host* from = zone->create_host(fmt::format("s{}", name), 1e9);
      sg::Host* to = zone->create_host(fmt::format("r{}", name), 1e9);
      std::vector<sg::LinkInRoute> route;
      for (const std::size_t l : flow.path) route.emplace_back(links[l]);
      // This SimGrid has no rate limit for communications between hosts; a link of its own is one.
      if (flow.cap > 0) {
        route.emplace_back(
            zone->create_link(fmt::format("c{}", name), static_cast<double>(flow.cap) / 8));
      }
      zone->add_route(from->get_netpoint(), to->get_netpoint(), nullptr, nullptr, route, false);
      starts.push_back({flow.start, n, f, from, to});
    }
  }
  zone->seal();
  std::vector<std::vector<double> > end(cases.size());
  for (std::size_t n = 0; n < cases.size(); ++n) {
    end[n].assign(cases[n].flows.size(), std::numeric_limits<double>::quiet_NaN());
  }
  sg::Activity::on_completion_cb([&end](const sg::Activity& activity) {
    const std::string& name = activity.get_name();  // "case_flow"
    const std::size_t cut = name.find('_');
    end[std::stoul(name.substr(0, cut))][std::stoul(name.substr(cut + 1))] =
        sg::Engine::get_clock();
  });
  std::stable_sort(starts.begin(), starts.end(),
                   [](const Start& a, const Start& b) { return a.at < b.at; });
  std::vector<sg::CommPtr> running;  // SimGrid drops a communication that nobody holds
  for (const Start& start : starts) {
    if (start.at > sg::Engine::get_clock()) engine.run_until(start.at);
    const Flow& flow = cases[start.number].flows[start.flow];
    sg::CommPtr comm = sg::Comm::sendto_init();
    comm->set_name(fmt::format("{}_{}", start.number, start.flow));
    comm->set_payload_size(static_cast<std::uint64_t>(flow.bytes));
    comm->set_source(start.from)->set_destination(start.to);  // last: with them it is under way
    running.push_back(std::move(comm));
  }
  engine.run();
  return end;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<Case> cases;
  for (int n = 0; n < kCases; ++n) cases.push_back(draw(n));
  const std::vector<std::vector<double> > theirs = run_simgrid(cases, argc, argv);
  std::size_t flows = 0;
  std::size_t wrong = 0;
  double worst = 0;
  for (std::size_t n = 0; n < cases.size(); ++n) {
    const std::vector<double> ours = run_here(cases[n]);
    for (std::size_t f = 0; f < ours.size(); ++f) {
      const double start = cases[n].flows[f].start;
      const double error = std::fabs((ours[f] - start) / (theirs[n][f] - start) - 1);
      ++flows;
      if (!(error <= worst)) worst = error;
      if (error <= kTolerance) continue;  // NaN counts as wrong
      if (++wrong > 20) continue;
      std::printf("case %zu flow %zu: here %.9f s, SimGrid %.9f s, start %.3f s\n", n, f, ours[f],
                  theirs[n][f], start);
    }
  }
  std::printf("%zu cases, %zu flows, worst difference %.2e, %zu beyond %.0e\n", cases.size(), flows,
              worst, wrong, kTolerance);
  return wrong == 0 && flows > 1000 ? 0 : 1;
}

#endif
