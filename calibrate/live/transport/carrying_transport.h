#pragma once
// A transport that only says when transfers end (the modelled network of sim/net), with bytes: they
// are copied from region to region when it says so, before anyone is told. The regions of all
// endpoints lie in this process.

#include <memory>
#include <unordered_map>
#include <vector>

#include "calibrate/live/memory/pool.h"
#include "calibrate/live/transport/live_transport.h"
#include "calibrate/live/wire/message.h"
#include "sim/port/transport.h"

namespace kvlane::live {

class CarryingTransport final : public Transport {
 public:
  struct End {
    RegionTable* regions = nullptr;
    Inspector* inspector = nullptr;  // may be null
  };
  // `ends`: by endpoint. All of it, and `inner`, outlive this.
  CarryingTransport(Transport& inner, std::vector<End> ends);

  TransferId post(const TransferSpec& spec, Callback completion) override;
  bool cancel(TransferId transfer) override { return inner_.cancel(transfer); }
  // Throws RunError from the loop where an inspector has a problem with a message.
  void set_handler(EndpointId endpoint, MessageHandler* handler) override;
  TransportLimits limits(EndpointId endpoint) const override { return inner_.limits(endpoint); }

  void inspect(EndpointId endpoint, Inspector& inspector) {
    ends_[endpoint.index()].inspector = &inspector;
  }
  std::size_t in_flight() const { return carried_.size(); }
  std::int64_t carried_bytes() const { return carried_bytes_; }

 private:
  // Stands at an endpoint, before its handler.
  struct Tap final : MessageHandler {
    CarryingTransport* self = nullptr;
    EndpointId endpoint;
    MessageHandler* handler = nullptr;
    void on_message(EndpointId from, const Message& message) override;
  };
  struct Carried {
    CarryingTransport* self = nullptr;
    std::uint64_t number = 0;
    TransferOp op = TransferOp::write;
    EndpointId poster, peer;
    std::vector<Fragment> fragments;
    OwnedMessage message;
    Callback completion;
    bool placed = false;
  };
  void place(Carried& carried);
  void ended(std::uint64_t number, TransferStatus status);

  Transport& inner_;
  std::vector<End> ends_;
  std::vector<std::unique_ptr<Tap>> taps_;
  // By number, which travels as the message's cookie.
  std::unordered_map<std::uint64_t, std::unique_ptr<Carried>> carried_;
  std::uint64_t posted_ = 0;
  std::int64_t carried_bytes_ = 0;
};

}  // namespace kvlane::live
