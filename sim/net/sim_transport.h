#pragma once
// The transport port over the fluid network. A (poster, peer, lane) is a queue pair: what is posted
// on it leaves one after the other, in order, so that a message cannot overtake data and the
// message rate of a queue pair is shared by its transfers; READs have queues of their own. A
// transfer is
//   posting     per_doorbell + work requests * per_message, on the poster's CPU, one post at a time
//   request     READ only: one latency
//   flow        over the route, at most bytes * message_rate / work requests a second
//   latency     of the route and of the NICs; then the message, then the poster's completion.
// Work requests: WRITE and READ max(ceil(segments / SGE limit), targets), since each names one
// contiguous piece of the peer's memory; SEND max(ceil(segments / max_send_sge), ceil(targets /
// the peer's max_recv_sge)). `segments` lie at the poster, `targets` at the peer.
// Memory that is a GPU's puts the GPU's PCIe direction on the path (GPUDirect).

#include <memory>

#include "sim/net/fluid_network.h"
#include "sim/net/nic_spec.h"
#include "sim/net/topology.h"
#include "sim/port/trace.h"
#include "sim/port/transport.h"

namespace kvlane {

class SimTransport final : public Transport {
 public:
  // `trace` may be null. One record a transfer: begin when its flow starts, end on arrival; value =
  // work requests, flow = the transfer's id.
  SimTransport(EventLoop& loop, FluidNetwork& network, Topology& topology, TraceSink* trace);
  ~SimTransport() override;

  // An endpoint stands at `node` of the topology. Its cables, which exist by now and carry the raw
  // rate, are set to min(cable, NIC) * efficiency, and lose priority where the NIC has none.
  EndpointId add_endpoint(NodeId node, const NicSpec& nic);
  // PCIe links of a GPU, used by transfers whose memory is that GPU's.
  void attach_gpu(GpuId gpu, LinkId host_to_device, LinkId device_to_host);

  TransferId post(const TransferSpec& spec, Callback completion) override;
  bool cancel(TransferId transfer) override;
  void set_handler(EndpointId endpoint, MessageHandler* handler) override;
  TransportLimits limits(EndpointId endpoint) const override;

  // The rate that one flow alone would get from one endpoint to the other.
  Bandwidth path_rate(EndpointId from, EndpointId to) const;
  // Cables and NICs: half of each NIC's latency, which is stated from NIC to NIC.
  Duration path_latency(EndpointId from, EndpointId to) const;
  // Work requests that a transfer makes after SGE splitting.
  std::int64_t work_requests(const TransferSpec& spec) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvlane
