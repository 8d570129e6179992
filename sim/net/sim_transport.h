#pragma once
// The transport port over the fluid network: endpoints with a NIC, SGE splitting, message rate,
// doorbell and descriptor cost, latency; lanes in order. A transfer to or from GPU memory by
// GPUDirect also occupies that GPU's PCIe direction.

#include <memory>

#include "sim/net/fluid_network.h"
#include "sim/net/nic_spec.h"
#include "sim/net/topology.h"
#include "sim/port/trace.h"
#include "sim/port/transport.h"

namespace kvlane {

class SimTransport final : public Transport {
 public:
  SimTransport(EventLoop& loop, FluidNetwork& network, Topology& topology, TraceSink* trace);
  ~SimTransport() override;

  // An endpoint stands at `node` of the topology. The cable between node and switch carries the
  // rate; the NIC adds efficiency, message rate, costs and limits.
  EndpointId add_endpoint(NodeId node, const NicSpec& nic);
  // PCIe links of a GPU, used by transfers whose memory is that GPU's.
  void attach_gpu(GpuId gpu, LinkId host_to_device, LinkId device_to_host);

  TransferId post(const TransferSpec& spec, Callback completion) override;
  bool cancel(TransferId transfer) override;
  void set_handler(EndpointId endpoint, MessageHandler* handler) override;
  TransportLimits limits(EndpointId endpoint) const override;

  // The rate that one flow alone would get from one endpoint to the other.
  Bandwidth path_rate(EndpointId from, EndpointId to) const;
  Duration path_latency(EndpointId from, EndpointId to) const;
  // Work requests that a transfer makes after SGE splitting.
  std::int64_t work_requests(const TransferSpec& spec) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvlane
