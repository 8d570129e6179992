#pragma once
// What is the same for every strategy of a scenario and seed, made on first use and shared:
// layouts, the selection demand of each request (common random numbers), profiles and push orders.

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "sim/policy/push_order.h"
#include "sim/scenario/scenario.h"
#include "sim/select/demand.h"

namespace kvlane {

class Workload {
 public:
  // `scenario` outlives this.
  Workload(const Scenario& scenario, std::uint64_t seed);

  struct Request {
    std::int64_t prompt_tokens = 0;
    std::int64_t cached_tokens = 0;
    const KvLayout* layout = nullptr;
  };
  const std::vector<Request>& requests() const { return requests_; }
  const Demand& demand(Selector selector, std::size_t request);
  const BlockOrder& order(PushOrder order, Selector selector, std::size_t request);

 private:
  const ImportanceProfile& profile(Selector selector, const KvLayout& layout);

  const Scenario& scenario_;
  std::uint64_t seed_;
  std::vector<Request> requests_;
  std::map<std::int64_t, std::unique_ptr<KvLayout>> layouts_;  // by prompt tokens
  std::map<std::pair<Selector, std::size_t>, std::unique_ptr<const Demand>> demands_;
  std::map<std::pair<Selector, std::int64_t>, std::unique_ptr<const ImportanceProfile>> profiles_;
  std::map<std::tuple<PushOrder, Selector, std::int64_t>, std::unique_ptr<const BlockOrder>>
      orders_;
};

}  // namespace kvlane
