#include <fmt/format.h>

#include <memory>
#include <simgrid/s4u.hpp>

#include "tests/bench/cpu_clock.h"
#include "tests/bench/flows.h"

namespace kvlane::bench {
namespace {

namespace sg = simgrid::s4u;

// SimGrid has one engine a process, whose clock goes on from run to run. Communications start from
// the completion of others, without actors, which is its fastest way.
struct World {
  std::unique_ptr<sg::Engine> engine;
  sg::Host* from = nullptr;
  sg::Host* to = nullptr;
  const FlowsInput* input = nullptr;
  double begin = 0;
  std::size_t started = 0;
  std::vector<sg::CommPtr> slots;
  std::vector<std::string> names;
  std::vector<double> ends;

  World() {
    int argc = 2;
    char name[] = "bench";
    char quiet[] = "--log=root.thresh:critical";
    char* argv[] = {name, quiet, nullptr};
    engine = std::make_unique<sg::Engine>(&argc, argv);
    for (const char* setting :
         {"network/model:CM02", "network/TCP-gamma:0", "network/crosstraffic:0",
          "network/latency-factor:1", "network/bandwidth-factor:1", "network/weight-S:0"}) {
      sg::Engine::set_config(setting);
    }
    sg::NetZone* zone = sg::create_full_zone("all");
    sg::Link* port = zone->create_link("port", 25e9 / 8);
    from = zone->create_host("from", 1e9);
    to = zone->create_host("to", 1e9);
    zone->add_route(from->get_netpoint(), to->get_netpoint(), nullptr, nullptr,
                    {sg::LinkInRoute(port)}, false);
    zone->seal();
    sg::Activity::on_completion_cb([this](const sg::Activity& activity) {
      ends.push_back(sg::Engine::get_clock() - begin);
      if (started < input->flows) start(std::stoul(activity.get_name()));
    });
  }
  void start(std::size_t slot) {
    sg::CommPtr comm = sg::Comm::sendto_init();
    comm->set_name(names[slot]);
    comm->set_payload_size(input->sizes[started++ & (input->sizes.size() - 1)]);
    comm->set_source(from)->set_destination(to);  // with both it is under way
    slots[slot] = std::move(comm);
  }
};

}  // namespace

FlowsResult flows_simgrid(const FlowsInput& input) {
  static World world;
  world.input = &input;
  world.started = 0;
  world.slots.assign(input.concurrent, nullptr);
  world.names.clear();
  for (std::size_t i = 0; i < input.concurrent; ++i) world.names.push_back(std::to_string(i));
  world.ends.clear();
  world.ends.reserve(input.flows);
  world.begin = sg::Engine::get_clock();
  const double begin = cpu_seconds();
  for (std::size_t i = 0; i < input.concurrent; ++i) world.start(i);
  world.engine->run();
  const double end = cpu_seconds();
  world.slots.clear();
  return {end - begin, std::move(world.ends)};
}

}  // namespace kvlane::bench
