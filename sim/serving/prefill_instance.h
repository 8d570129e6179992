#pragma once
// The prefill role: workers compute prompts one after the other, offload each layer's KV, give it
// to the request's policy and carry out what it decides; requests for rows are answered from host
// memory. Steps of a prefill: docs/system.md 5.

#include <deque>
#include <memory>
#include <vector>

#include "sim/serving/environment.h"

namespace kvlane {

// Told when a request's prefill has produced token 1 on this instance (router, colocated decoding).
class PrefillListener {
 public:
  virtual ~PrefillListener() = default;
  // The bandwidth that a prefill starting now on `prefill` may count on towards its decode
  // instance.
  virtual Bandwidth prefill_starts(RequestId request) = 0;
  virtual void prefill_ended(RequestId request) = 0;
};

class PrefillInstance final : public MessageHandler {
 public:
  PrefillInstance(Environment& environment, EndpointId self, std::vector<Worker> workers,
                  PrefillListener& listener);
  ~PrefillInstance() override;

  // Queues a request on a worker; its KV goes to `decode`. An invalid endpoint: nothing is sent.
  void submit(std::size_t worker, RequestId request, EndpointId decode, GpuId decode_gpu);
  std::size_t worker_count() const { return workers_.size(); }
  std::size_t load(std::size_t worker) const;  // requests queued or running

  void on_message(EndpointId from, const Message& message) override;

 private:
  struct Job;
  struct WorkerState;

  Task work(TaskScope& scope, WorkerState& worker);
  Task offload(TaskScope& scope, Job& job, std::size_t layer);
  Task answer(TaskScope& scope, EndpointId decode, Message wanted);
  Task announce(TaskScope& scope, Job& job, bool wait_for_all);
  void tell_policy(Job& job, const PolicyEvent& event);
  void write(Job& job, const WriteBlocks& write);
  void write(Job& job, const WriteMetadata& write);
  void copy(const Worker& worker, CopyDirection direction, Bytes bytes, const Job& job,
            std::size_t layer, WaitGroup& group);

  Environment& env_;
  EndpointId self_;
  PrefillListener& listener_;
  std::vector<std::unique_ptr<WorkerState>> workers_;
  std::vector<std::unique_ptr<Job>> jobs_;  // by RequestId, null where another instance has it
};

}  // namespace kvlane
