#pragma once
// A fluid network: flows share links max-min fairly within a lane; a lane gets what the lanes above
// it leave (strict priority), or all lanes share alike on a link whose NIC cannot prioritise. Rates
// are recomputed on every arrival and departure, only in the part of the network that it touches.
// NIC ports, switch uplinks, PCIe directions and host memory are all links of this kind.

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "sim/base/strong_id.h"
#include "sim/base/units.h"
#include "sim/port/event_loop.h"
#include "sim/port/transport.h"

namespace kvlane {

struct FlowId {
  std::uint64_t value = 0;
  constexpr bool operator==(const FlowId&) const = default;
  explicit constexpr operator bool() const { return value != 0; }
};

struct FlowSpec {
  std::span<const LinkId> path;  // copied; may be empty: only the cap limits
  Bytes bytes{0};                // 0 completes at the current time, from the loop
  Lane lane = Lane::proactive;
  Bandwidth cap = Bandwidth::unlimited();  // own limit (message rate, a single copy engine)
};

struct LinkUsage {
  std::array<Bytes, kLaneCount> bytes{};  // carried so far, by lane
  Duration busy{0};                       // time with at least one flow of rate > 0
  double share_time = 0;                  // integral of rate / capacity, in seconds
};

class FluidNetwork {
 public:
  explicit FluidNetwork(EventLoop& loop);
  ~FluidNetwork();
  FluidNetwork(const FluidNetwork&) = delete;
  FluidNetwork& operator=(const FluidNetwork&) = delete;

  // An unlimited link never limits. `lane_priority` false: all lanes of this link share alike.
  LinkId add_link(std::string name, Bandwidth capacity, bool lane_priority = true);
  // Degradation; zero: the link is down, its flows stand still until it comes back.
  void set_capacity(LinkId link, Bandwidth capacity);
  void set_lane_priority(LinkId link, bool lane_priority);
  Bandwidth capacity(LinkId link) const;
  bool lane_priority(LinkId link) const;
  const std::string& name(LinkId link) const;
  std::size_t link_count() const;

  // The completion runs from the loop when the last byte has passed. Starts at now().
  FlowId start(const FlowSpec& spec, Callback completion);
  // Stops a flow; its completion never runs. Returns the bytes that had passed (rounded down);
  // 0 for a flow that has ended before.
  Bytes cancel(FlowId flow);
  bool active(FlowId flow) const;
  Bandwidth rate(FlowId flow) const;
  Bytes remaining(FlowId flow) const;
  std::size_t active_flows() const;
  // Up to now().
  LinkUsage usage(LinkId link) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvlane
