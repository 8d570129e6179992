#pragma once
// The decode role of one worker: continuous batching over the sequences whose policy lets them
// start. Every iteration goes through the layers: QKV, selection, split of the index by the mask,
// local rows over PCIe beside remote rows over the network, attention, FFN (docs/system.md 5).

#include <memory>
#include <vector>

#include "sim/kv/kv_mask.h"
#include "sim/serving/environment.h"

namespace kvlane {

class DecodeInstance final : public MessageHandler {
 public:
  // `self` is invalid when prefill happens here too (colocated). Messages come through
  // on_message(), from the DecodeEndpoint that the workers of an instance share.
  DecodeInstance(Environment& environment, EndpointId self, Worker worker);
  ~DecodeInstance() override;

  // A request will come here; its KV from `prefill`. Invalid: it is computed here (colocated) and
  // join() tells when.
  void expect(RequestId request, EndpointId prefill);
  void join(RequestId request);
  bool expects(RequestId request) const { return sequences_[request.index()] != nullptr; }
  GpuId gpu() const { return worker_.gpus.front(); }

  void on_message(EndpointId from, const Message& message) override;

 private:
  struct Sequence;
  struct LayerLoad;
  struct Fetch;

  Task serve(TaskScope& scope);
  Task iterate_layer_load(TaskScope& scope, LayerLoad& load);
  Task load_local(TaskScope& scope, LayerLoad& load);
  Task fetch_remote(TaskScope& scope, LayerLoad& load, std::size_t source);
  Task stage(TaskScope& scope, Sequence& sequence, std::vector<BlockRun> runs, LayerId metadata_of,
             Bytes bytes);
  Task select_ahead(TaskScope& scope, LayerLoad& load);

  void arrived(Sequence& sequence, std::span<const BlockRun> runs, LayerId metadata_of);
  void tell_policy(Sequence& sequence, const PolicyEvent& event);
  void split(LayerLoad& load);
  // Their names are appended to `index` unless it is null.
  std::int64_t remote_rows(Sequence& sequence, std::size_t layer,
                           std::vector<std::uint32_t>* index);
  void signal_idle();
  bool layer_selects(std::size_t layer) const;
  void post_copy(CopyDirection direction, Bytes bytes, std::size_t layer, WaitGroup& group);
  Work work(WorkKind kind, std::size_t layer) const;
  void finish_iteration();

  Environment& env_;
  EndpointId self_;
  Worker worker_;
  std::vector<std::unique_ptr<Sequence>> sequences_;  // by RequestId, null where not expected
  std::vector<Sequence*> ready_;                      // in order of becoming ready
  std::vector<Sequence*> running_;                    // in order of joining
  std::vector<EndpointId> sources_;                   // prefill instances, in order of first use
  std::vector<std::unique_ptr<LayerLoad>> loads_;     // [layer], of the current iteration
  std::vector<Fetch*> fetches_;                       // by cookie, null when free
  Signal wake_;
  std::int32_t iteration_ = 0;
};

// One NIC port, several decode workers: gives each message to the worker that has the request.
class DecodeEndpoint final : public MessageHandler {
 public:
  explicit DecodeEndpoint(std::vector<DecodeInstance*> workers) : workers_(std::move(workers)) {}
  void on_message(EndpointId from, const Message& message) override;

 private:
  std::vector<DecodeInstance*> workers_;
};

}  // namespace kvlane
