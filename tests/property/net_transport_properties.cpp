// Properties of the simulated transport over random posts: each post completes once, messages of a
// queue pair arrive in the order posted and after the data before them, no transfer is faster than
// the model allows, and the trace, the links and the posts agree on the bytes.

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/base/rng.h"
#include "sim/des/virtual_loop.h"
#include "sim/net/sim_transport.h"

namespace kvlane {
namespace {

struct Post {
  TransferSpec spec;
  TransferId id;
  TimePoint posted = kNever, done = kNever, arrived = kNever;
  TransferStatus status = TransferStatus::failed;
  std::uint64_t order = 0;  // of posting
};

struct World final : TraceSink {
  struct Handler final : MessageHandler {
    World* world = nullptr;
    void on_message(EndpointId from, const Message& message) override {
      Post& post = world->posts[message.cookie];
      RC_ASSERT(post.arrived == kNever);
      RC_ASSERT(post.spec.poster == from);
      post.arrived = world->loop.now();
      world->arrivals.push_back(message.cookie);
    }
  };

  World(std::uint64_t seed, std::uint64_t count, std::uint64_t endpoint_count)
      : rng(seed, "transport property") {
    handler.world = this;
    const NodeId hub = topology.add_node("hub");
    for (std::uint64_t e = 0; e < endpoint_count; ++e) {
      NicSpec nic;
      nic.rate =
          Bandwidth::bits_per_sec(static_cast<std::int64_t>(1 + rng.below(40)) * 1'000'000'000);
      nic.efficiency = rng.below(2) == 0 ? 1.0 : 0.92;
      nic.message_rate = rng.below(2) == 0 ? 0 : 1e6 * static_cast<double>(1 + rng.below(10));
      nic.latency = Duration(static_cast<std::int64_t>(rng.below(3'000'000)));
      nic.per_message = Duration(static_cast<std::int64_t>(rng.below(200'000)));
      nic.per_doorbell = Duration(static_cast<std::int64_t>(rng.below(500'000)));
      nic.max_send_sge = static_cast<int>(1 + rng.below(30));
      nic.max_read_sge = static_cast<int>(1 + rng.below(30));
      nic.max_recv_sge = static_cast<int>(1 + rng.below(30));
      nic.lane_priority = rng.below(2) == 0;
      const NodeId node = topology.add_node(fmt::format("node{}", e));
      topology.add_cable(node, hub, nic.rate,
                         Duration(static_cast<std::int64_t>(rng.below(1'000'000))), true);
      transport.set_handler(transport.add_endpoint(node, nic), &handler);
      ups.push_back(topology.link(node, hub));
    }
    posts.resize(count);
    context.resize(count);
    for (std::uint64_t p = 0; p < count; ++p) {
      TransferSpec& spec = posts[p].spec;
      spec.op = static_cast<TransferOp>(rng.below(4));
      spec.lane = static_cast<Lane>(rng.below(kLaneCount));
      spec.poster = EndpointId(rng.below(endpoint_count));
      spec.peer =
          EndpointId((spec.poster.value() + 1 + rng.below(endpoint_count - 1)) % endpoint_count);
      spec.bytes = Bytes(static_cast<std::int64_t>(rng.below(4) == 0 ? 0 : rng.below(200'000)));
      spec.segments = static_cast<std::int64_t>(1 + rng.below(100));
      spec.targets = static_cast<std::int64_t>(1 + rng.below(20));
      spec.message.cookie = p;
      at(rng.below(100'000'000), &World::post, p);
      if (rng.below(10) == 0) at(rng.below(150'000'000), &World::cancel, p);
    }
  }
  void at(std::uint64_t ps, void (*function)(void*, std::uint64_t), std::uint64_t argument) {
    loop.schedule_at(TimePoint(Duration(static_cast<std::int64_t>(ps))),
                     {function, this, argument});
  }
  static void post(void* self, std::uint64_t p) {
    World& world = *static_cast<World*>(self);
    Post& post = world.posts[p];
    post.posted = world.loop.now();
    post.order = ++world.order;
    world.context[p] = {&world, p};
    post.id = world.transport.post(post.spec, {&World::done, &world.context[p], 0});
    RC_ASSERT(post.done == kNever);  // never from inside post()
  }
  static void cancel(void* self, std::uint64_t p) {
    World& world = *static_cast<World*>(self);
    if (world.posts[p].posted == kNever) return;
    const bool done = world.posts[p].done != kNever;
    const bool cancelled = world.transport.cancel(world.posts[p].id);
    RC_ASSERT(!(done && cancelled));
    RC_ASSERT(!world.transport.cancel(world.posts[p].id));
    if (cancelled) world.posts[p].order = 0;
  }
  void record(const TraceRecord& r) override {
    RC_ASSERT(r.begin <= r.end);
    traced[r.source.index()] += r.bytes.count();
  }
  struct Context {
    World* world;
    std::uint64_t post;
  };
  static void done(void* self, std::uint64_t status) {
    const Context& c = *static_cast<Context*>(self);
    Post& post = c.world->posts[c.post];
    RC_ASSERT(post.done == kNever);
    post.done = c.world->loop.now();
    post.status = static_cast<TransferStatus>(status);
  }

  Rng rng;
  VirtualLoop loop;
  FluidNetwork network{loop};
  Topology topology{network};
  SimTransport transport{loop, network, topology, this};
  Handler handler;
  std::vector<LinkId> ups;
  std::vector<Post> posts;
  std::vector<Context> context;
  std::vector<std::uint64_t> arrivals;
  std::vector<std::int64_t> traced = std::vector<std::int64_t>(16, 0);
  std::uint64_t order = 0;
};

bool same_queue_pair(const Post& a, const Post& b) {
  return a.spec.poster == b.spec.poster && a.spec.peer == b.spec.peer &&
         a.spec.lane == b.spec.lane &&
         (a.spec.op == TransferOp::read) == (b.spec.op == TransferOp::read);
}

TEST_CASE("random posts keep the rules of the transport port") {
  CHECK(rc::check([] {
    World world(*rc::gen::inRange<std::uint64_t>(0, 1'000'000),
                *rc::gen::inRange<std::uint64_t>(1, 60), *rc::gen::inRange<std::uint64_t>(2, 6));
    world.loop.run();
    for (const Post& post : world.posts) {
      RC_ASSERT(post.done != kNever);
      const bool ok = post.status == TransferStatus::ok;
      RC_ASSERT(ok == (post.order != 0));  // cancelled exactly where cancel() said so
      const bool told =
          post.spec.op == TransferOp::write_with_imm || post.spec.op == TransferOp::send;
      RC_ASSERT((post.arrived != kNever) == (told && ok));
      if (!ok) continue;
      RC_ASSERT(!told || post.arrived == post.done);
      const bool read = post.spec.op == TransferOp::read;
      const Duration latency = world.transport.path_latency(post.spec.poster, post.spec.peer);
      const Duration wire = serialization_delay(
          post.spec.bytes, world.transport.path_rate(post.spec.poster, post.spec.peer));
      RC_ASSERT(post.done - post.posted >= wire + latency * (read ? 2 : 1));
      for (const Post& other : world.posts) {
        if (other.order <= post.order || !same_queue_pair(post, other)) continue;
        RC_ASSERT(other.done >= post.done);
      }
    }
    // Messages of one queue pair: in the order posted, equal times included.
    for (std::size_t i = 0; i < world.arrivals.size(); ++i) {
      for (std::size_t j = i + 1; j < world.arrivals.size(); ++j) {
        const Post& a = world.posts[world.arrivals[i]];
        const Post& b = world.posts[world.arrivals[j]];
        RC_ASSERT(!same_queue_pair(a, b) || a.order < b.order);
      }
    }
    // What an endpoint's port has carried is what the trace says has left it.
    for (std::size_t e = 0; e < world.ups.size(); ++e) {
      std::int64_t carried = 0;
      for (const Bytes lane : world.network.usage(world.ups[e]).bytes) carried += lane.count();
      RC_ASSERT(carried == world.traced[e]);
    }
  }));
}

}  // namespace
}  // namespace kvlane
