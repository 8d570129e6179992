#include "sim/serving/router.h"

#include <algorithm>

namespace kvlane {

void Router::set_instances(std::vector<Prefill> prefill, std::vector<Decode> decode,
                           bool colocated) {
  prefill_ = std::move(prefill);
  decode_ = std::move(decode);
  colocated_ = colocated;
  places_.resize(env_.requests.size());
  queues_.clear();
  for (const Prefill& p : prefill_) queues_.emplace_back(p.workers);
  sent_to_.assign(decode_.size(), 0);
}

void Router::place(RequestId request) {
  Place& place = places_[request.index()];
  std::size_t least = ~std::size_t{0};
  // Worker by worker over all instances, so that a batch spreads over NICs first.
  std::size_t most_workers = 0;
  for (const auto& queue : queues_) most_workers = std::max(most_workers, queue.size());
  for (std::size_t worker = 0; worker < most_workers; ++worker) {
    for (std::size_t p = 0; p < queues_.size(); ++p) {
      if (worker < queues_[p].size() && queues_[p][worker].size() < least) {
        least = queues_[p][worker].size();
        place.prefill = p;
        place.worker = worker;
      }
    }
  }
  if (colocated_) {
    place.decode = 0;
    for (std::size_t p = 0; p < place.prefill; ++p) place.decode += queues_[p].size();
    place.decode += place.worker;
  } else {
    for (std::size_t d = 1; d < decode_.size(); ++d) {
      if (sent_to_[d] < sent_to_[place.decode]) place.decode = d;
    }
  }
  ++sent_to_[place.decode];
  queues_[place.prefill][place.worker].push_back(request);
  mark_head(place.prefill, place.worker);
}

void Router::dispatch(RequestId request) {
  const Place& place = places_[request.index()];
  const Prefill& prefill = prefill_[place.prefill];
  const Decode& decode = decode_[place.decode];
  if (decode.instance != nullptr) {
    decode.instance->expect(request, colocated_ ? EndpointId() : prefill.endpoint);
  }
  if (prefill.instance != nullptr) {
    env_.mark(TraceKind::arrived, request);
    prefill.instance->submit(place.worker, request, colocated_ ? EndpointId() : decode.endpoint,
                             decode.gpu);
  }
}

EndpointId Router::prefill_of(RequestId request) const {
  return prefill_[places_[request.index()].prefill].endpoint;
}
EndpointId Router::decode_of(RequestId request) const {
  return decode_[places_[request.index()].decode].endpoint;
}

void Router::mark_head(std::size_t prefill, std::size_t worker) {
  const auto& queue = queues_[prefill][worker];
  if (!queue.empty()) places_[queue.front().index()].in_flight = true;
}

std::size_t Router::in_flight_to(std::size_t decode) const {
  return static_cast<std::size_t>(
      std::count_if(places_.begin(), places_.end(), [&](const Place& p) {
        return p.in_flight && decode_[p.decode].endpoint == decode_[decode].endpoint;
      }));
}
std::size_t Router::in_flight_from(std::size_t prefill) const {
  return static_cast<std::size_t>(
      std::count_if(places_.begin(), places_.end(),
                    [&](const Place& p) { return p.in_flight && p.prefill == prefill; }));
}

// Port rate / prefills in flight to that port when this prefill starts (docs/system.md 3), at
// either end.
Bandwidth Router::prefill_starts(RequestId request) {
  if (colocated_) return Bandwidth::unlimited();
  const Place& place = places_[request.index()];
  const EndpointId from = prefill_[place.prefill].endpoint;
  const EndpointId to = decode_[place.decode].endpoint;
  const auto share = [](Bandwidth rate, std::size_t n) {
    return rate.scaled(1.0 / static_cast<double>(std::max<std::size_t>(1, n)));
  };
  return std::min({rates_.path(from, to), share(rates_.port(from), in_flight_from(place.prefill)),
                   share(rates_.port(to), in_flight_to(place.decode))});
}

void Router::prefill_ended(RequestId request) {
  prefill_ended_elsewhere(request);
  if (colocated_) decode_[places_[request.index()].decode].instance->join(request);
  if (told_) told_(request);
}

void Router::prefill_ended_elsewhere(RequestId request) {
  Place& place = places_[request.index()];
  place.in_flight = false;
  auto& queue = queues_[place.prefill][place.worker];
  queue.erase(queue.begin());
  mark_head(place.prefill, place.worker);
}

}  // namespace kvlane
