#pragma once
// Policies that write down what they were told and what they decided, and replay of such a record
// through a fresh policy.

#include <memory>
#include <utility>
#include <vector>

#include "sim/serving/environment.h"

namespace kvlane::test {

// An event with its runs kept.
struct RecordedEvent {
  TimePoint now;
  PolicyEvent event;  // spans are not valid: `runs` instead
  std::vector<BlockRun> runs;
  std::vector<PolicyAction> actions;

  PolicyEvent whole() const {
    PolicyEvent copy = event;
    if (auto* arrived = std::get_if<BlocksArrived>(&copy)) arrived->runs = runs;
    if (auto* fetched = std::get_if<BlocksFetched>(&copy)) fetched->runs = runs;
    return copy;
  }
};

// The same event, whenever it was.
inline bool same_event(const RecordedEvent& a, const RecordedEvent& b) {
  if (a.event.index() != b.event.index() || a.runs != b.runs) return false;
  return std::visit(
      [&](const auto& x) {
        using T = std::decay_t<decltype(x)>;
        const T& y = std::get<T>(b.event);
        if constexpr (std::is_same_v<T, PrefillStarted>) {
          return x.prefill == y.prefill && x.bandwidth == y.bandwidth;
        } else if constexpr (std::is_same_v<T, LayerHandedOver>) {
          return x.layer == y.layer;
        } else if constexpr (std::is_same_v<T, NetworkIdle>) {
          return x.iteration == y.iteration;
        } else if constexpr (std::is_same_v<T, WriteCompleted>) {
          return x.lane == y.lane && x.bytes == y.bytes;
        } else if constexpr (std::is_same_v<T, BlocksArrived>) {
          return x.metadata_of == y.metadata_of;
        } else if constexpr (std::is_same_v<T, PrefillDoneHeard>) {
          return x.wait_for_all == y.wait_for_all;
        } else {
          return true;
        }
      },
      a.event);
}

struct PolicyRecord {
  RequestId request;
  PolicySide side = PolicySide::prefill;
  std::vector<RecordedEvent> events;
};

class RecordingPolicy final : public TransferPolicy {
 public:
  RecordingPolicy(std::unique_ptr<TransferPolicy> inner, PolicyRecord& record)
      : inner_(std::move(inner)), record_(record) {}
  void on_event(TimePoint now, const PolicyEvent& event,
                std::vector<PolicyAction>& actions) override {
    RecordedEvent recorded{now, event, {}, {}};
    if (const auto* arrived = std::get_if<BlocksArrived>(&event)) {
      recorded.runs.assign(arrived->runs.begin(), arrived->runs.end());
    }
    if (const auto* fetched = std::get_if<BlocksFetched>(&event)) {
      recorded.runs.assign(fetched->runs.begin(), fetched->runs.end());
    }
    const std::size_t before = actions.size();
    inner_->on_event(now, event, actions);
    recorded.actions.assign(actions.begin() + static_cast<std::ptrdiff_t>(before), actions.end());
    record_.events.push_back(std::move(recorded));
  }

 private:
  std::unique_ptr<TransferPolicy> inner_;
  PolicyRecord& record_;
};

// Records every policy of a run, in the order in which they were made.
class PolicyRecorder {
 public:
  PolicyFactory factory() {
    return [this](const RequestPlan& request, PolicySide side) {
      records_.push_back(std::make_unique<PolicyRecord>());
      records_.back()->request = request.id;
      records_.back()->side = side;
      return std::make_unique<RecordingPolicy>(plain_policy(request, side), *records_.back());
    };
  }
  const PolicyRecord* find(RequestId request, PolicySide side) const {
    for (const auto& r : records_) {
      if (r->request == request && r->side == side) return r.get();
    }
    return nullptr;
  }
  const std::vector<std::unique_ptr<PolicyRecord>>& records() const { return records_; }

 private:
  std::vector<std::unique_ptr<PolicyRecord>> records_;
};

// The first event at which a fresh policy of `request` decides otherwise than recorded; the number
// of events when there is none.
inline std::size_t replay(const PolicyRecord& record, const RequestPlan& request) {
  const std::unique_ptr<TransferPolicy> policy = plain_policy(request, record.side);
  for (std::size_t i = 0; i < record.events.size(); ++i) {
    std::vector<PolicyAction> actions;
    policy->on_event(record.events[i].now, record.events[i].whole(), actions);
    if (actions != record.events[i].actions) return i;
  }
  return record.events.size();
}

}  // namespace kvlane::test
