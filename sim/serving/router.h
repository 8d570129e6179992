#pragma once
// Sends each request to the prefill worker and the decode instance with the least to do (ties: the
// lower number), and tells a starting prefill what bandwidth it may count on.

#include <functional>
#include <memory>
#include <vector>

#include "sim/serving/decode_instance.h"
#include "sim/serving/prefill_instance.h"

namespace kvlane {

// What is known of the ports at construction.
struct PortRates {
  // Of the wire between a prefill and a decode endpoint when nothing else uses it.
  virtual ~PortRates() = default;
  virtual Bandwidth path(EndpointId prefill, EndpointId decode) const = 0;
  virtual Bandwidth port(EndpointId endpoint) const = 0;
};

class Router final : public PrefillListener {
 public:
  // Instances of another process have a place here and no object; its router decides alike.
  struct Prefill {
    EndpointId endpoint;
    std::size_t workers = 0;
    PrefillInstance* instance = nullptr;
  };
  struct Decode {
    EndpointId endpoint;  // invalid: colocated with the prefill worker of the same index
    GpuId gpu;
    DecodeInstance* instance = nullptr;
  };

  Router(Environment& environment, const PortRates& rates) : env_(environment), rates_(rates) {}
  void set_instances(std::vector<Prefill> prefill, std::vector<Decode> decode, bool colocated);

  // Chooses where the request will go, in the order of arrival; prefill_of() knows from then on.
  void place(RequestId request);
  // At its arrival.
  void dispatch(RequestId request);
  EndpointId prefill_of(RequestId request) const;
  EndpointId decode_of(RequestId request) const;

  Bandwidth prefill_starts(RequestId request) override;
  void prefill_ended(RequestId request) override;
  // Likewise, of a request whose prefill another process has computed.
  void prefill_ended_elsewhere(RequestId request);
  // Told after each prefill that was computed here.
  void on_prefill_ended(std::function<void(RequestId)> told) { told_ = std::move(told); }

 private:
  struct Place {
    std::size_t prefill = 0, worker = 0, decode = 0;
    bool in_flight = false;  // at the head of its worker's queue
  };
  std::size_t in_flight_to(std::size_t decode) const;
  std::size_t in_flight_from(std::size_t prefill) const;
  void mark_head(std::size_t prefill, std::size_t worker);

  Environment& env_;
  const PortRates& rates_;
  std::function<void(RequestId)> told_;
  std::vector<Prefill> prefill_;
  std::vector<Decode> decode_;
  std::vector<std::size_t> sent_to_;  // by decode: requests so far
  bool colocated_ = false;
  std::vector<Place> places_;                                // by RequestId
  std::vector<std::vector<std::vector<RequestId>>> queues_;  // [prefill][worker], in order
};

}  // namespace kvlane
