#include "calibrate/live/transport/carrying_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/base/check.h"
#include "sim/run/strategy_run.h"

namespace kvlane::live {

CarryingTransport::CarryingTransport(Transport& inner, std::vector<End> ends)
    : inner_(inner), ends_(std::move(ends)) {
  for (std::size_t e = 0; e < ends_.size(); ++e) {
    taps_.push_back(std::make_unique<Tap>());
    taps_.back()->self = this;
    taps_.back()->endpoint = EndpointId(e);
    inner_.set_handler(EndpointId(e), taps_.back().get());
  }
}

void CarryingTransport::set_handler(EndpointId endpoint, MessageHandler* handler) {
  taps_[endpoint.index()]->handler = handler;
}

TransferId CarryingTransport::post(const TransferSpec& spec, Callback completion) {
  auto carried = std::make_unique<Carried>();
  Carried& c = *carried;
  c.self = this;
  c.number = ++posted_;
  c.op = spec.op;
  c.poster = spec.poster;
  c.peer = spec.peer;
  c.fragments.assign(spec.fragments.begin(), spec.fragments.end());
  c.message.runs.assign(spec.message.runs.begin(), spec.message.runs.end());
  c.message.groups.assign(spec.message.groups.begin(), spec.message.groups.end());
  c.message.index.assign(spec.message.index.begin(), spec.message.index.end());
  c.message.message = spec.message;
  c.message.message.runs = c.message.runs;
  c.message.message.groups = c.message.groups;
  c.message.message.index = c.message.index;
  c.completion = completion;
  TransferSpec inner = spec;
  inner.message = c.message.message;
  inner.message.cookie = c.number;
  carried_.emplace(c.number, std::move(carried));
  return inner_.post(inner, {[](void* context, std::uint64_t status) {
                               auto& ended = *static_cast<Carried*>(context);
                               ended.self->ended(ended.number, static_cast<TransferStatus>(status));
                             },
                             &c, 0});
}

void CarryingTransport::place(Carried& c) {
  if (std::exchange(c.placed, true)) return;
  const bool read = c.op == TransferOp::read;
  RegionTable& from = *ends_[(read ? c.peer : c.poster).index()].regions;
  RegionTable& to = *ends_[(read ? c.poster : c.peer).index()].regions;
  for (const Fragment& f : c.fragments) {
    std::copy_n(from.own(f.region, f.offset, f.length), f.length,
                to.own(f.region, f.offset, f.length));
    carried_bytes_ += f.length;
  }
  Inspector* inspector = ends_[c.poster.index()].inspector;
  if (read && inspector != nullptr) inspector->fetched(c.fragments);
}

void CarryingTransport::ended(std::uint64_t number, TransferStatus status) {
  const auto found = carried_.find(number);
  KVLANE_CHECK(found != carried_.end(), "transfer {} ended twice", number);
  const std::unique_ptr<Carried> carried = std::move(found->second);
  carried_.erase(found);
  if (status == TransferStatus::ok) place(*carried);
  if (carried->completion) {
    carried->completion.function(carried->completion.context, static_cast<std::uint64_t>(status));
  }
}

void CarryingTransport::Tap::on_message(EndpointId from, const Message& told) {
  const auto found = self->carried_.find(told.cookie);
  KVLANE_CHECK(found != self->carried_.end(), "a message of transfer {}", told.cookie);
  Carried& carried = *found->second;
  self->place(carried);
  const Message& message = carried.message.message;
  if (Inspector* inspector = self->ends_[endpoint.index()].inspector) {
    const std::string problem = inspector->problem(from, message);
    if (!problem.empty()) throw RunError(fmt::format("endpoint {} {}", from.value(), problem));
    inspector->arrived(from, message);
  }
  if (handler != nullptr) handler->on_message(from, message);
}

}  // namespace kvlane::live
