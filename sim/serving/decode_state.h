#pragma once
// What a decode worker keeps of its sequences and of the loads of the current iteration. Private to
// the files of DecodeInstance.

#include "sim/serving/decode_instance.h"

namespace kvlane {

struct DecodeInstance::Sequence {
  Sequence(const RequestPlan& p, EndpointId from)
      : plan(p), source(from), mask(*p.transfer.layout) {}
  const RequestPlan& plan;
  EndpointId source;
  KvMask mask;
  std::unique_ptr<TransferPolicy> policy;
  std::vector<PolicyAction> actions;    // scratch
  std::vector<BlockRun> fetched_whole;  // blocks completed by fetching since the last idle signal
  std::int64_t step = 0;                // decode steps done
  std::int32_t tokens = 0;              // emitted here or, the first, at the prefill side
  std::int64_t selected_rows = 0;       // of this iteration, layers that select
  std::int64_t remote_selected = 0;
  bool all_local_said = false;
};

// Everything that one layer of the current iteration must have before its attention.
struct DecodeInstance::LayerLoad {
  explicit LayerLoad(EventLoop& loop) : ready(loop) {}
  std::size_t layer = 0;
  std::int64_t attended = 0;         // (row, kv head) pairs over the batch
  std::int64_t local_rows = 0;       // to load over PCIe
  std::vector<std::int64_t> remote;  // rows by source
  std::vector<std::int64_t> remote_sequences;
  std::vector<RequestId> remote_first;  // a request of each source, names the worker in messages
  // In a world with memory: which rows, by source.
  struct Rows {
    std::vector<RowGroup> groups;
    std::vector<std::uint32_t> index;
  };
  std::vector<Rows> rows;
  WaitGroup ready;
};

struct DecodeInstance::Fetch {
  explicit Fetch(EventLoop& loop) : arrived(loop) {}
  Signal arrived;
};

}  // namespace kvlane
