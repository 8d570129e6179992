#pragma once
// What the serving side of one strategy run stands on: the ports of a world, the options, and the
// plans of its requests. The same code serves the simulated and the live world.

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "sim/policy/transfer_policy.h"
#include "sim/port/compute.h"
#include "sim/port/event_loop.h"
#include "sim/port/task.h"
#include "sim/port/trace.h"
#include "sim/port/transport.h"
#include "sim/select/demand.h"

namespace kvlane {

// Payload of a control message (announcement, idle signal), and of one entry of a row index.
inline constexpr std::int64_t kControlBytes = 64;
inline constexpr std::int64_t kIndexEntryBytes = 4;

// Of what nobody waits for. A failure is the world's to tell: it ends the run.
inline constexpr Callback kNoCompletion{[](void*, std::uint64_t) {}, nullptr, 0};

// One request, as every part of the serving side sees it.
struct RequestPlan {
  RequestId id;
  std::int64_t prompt_tokens = 0;
  std::int64_t output_tokens = 0;
  TimePoint arrival{};
  const Demand* demand = nullptr;  // null: dense attention, nothing selects
  TransferPlan transfer;           // layout, options, order, wire ratio, cached prefix
  RegionId region;                 // of its KV, the same number at both sides
  // In that region behind the KV: each layer's selection metadata, and where it all ends.
  std::vector<std::int64_t> metadata_offset;
  std::int64_t region_bytes = 0;
};

// Where the rows that a message names lie in the region of `plan`. Entries: sim/port/transport.h.
void append_row_fragments(const RequestPlan& plan, std::size_t layer,
                          std::span<const std::uint32_t> index, std::vector<Fragment>& fragments);
// Bytes of the pieces together.
Bytes bytes_of(std::span<const Fragment> fragments);
// Where blocks lie.
void append_block_fragments(const RequestPlan& plan, std::span<const BlockRun> runs,
                            std::vector<Fragment>& fragments);

// Serving options that are the run's, not the strategy's, with defaults resolved.
struct ServingSettings {
  FirstToken first_token = FirstToken::prefill;
  PrefixLocation prefix_location = PrefixLocation::host;
  KvPlacement placement = KvPlacement::host;  // this strategy's
  Selector selector = Selector::infinigen;
  std::int32_t selector_bytes = 0;  // metadata a (row, kv head)
  bool gpu_direct = true;
  bool free_gather = false;   // the ideal: collecting rows in host memory costs nothing
  std::int32_t kv_bits = 16;  // what the attention kernel reads: 16, 8, 4 or 2 (HACK)
  std::int32_t hack_partition = 64;
  std::int64_t gather_chunks = 1;  // pieces in which local rows are collected and copied
  Duration router_hop{0};
  Duration allocate{0};
  Duration idle_poll{0};  // an idle decode engine looks for arrivals this often
  std::int64_t shards =
      1;  // pieces a block is cut into, where the sides' tensor parallelism differs
};

// Which end of the wire a policy decides for.
enum class PolicySide : std::uint8_t { prefill, decode };
// Gives a request its policy at one side. `request` outlives the policy.
using PolicyFactory =
    std::function<std::unique_ptr<TransferPolicy>(const RequestPlan& request, PolicySide side)>;
inline std::unique_ptr<TransferPolicy> plain_policy(const RequestPlan& request, PolicySide) {
  return make_policy(request.transfer);
}

// Ports and everything shared by the instances of one strategy run. Outlives them.
struct Environment {
  EventLoop& loop;
  Transport& transport;
  Compute& compute;
  TraceSink& trace;
  TaskScope& tasks;
  ServingSettings settings;
  std::vector<RequestPlan> requests;  // by RequestId
  PolicyFactory policy = plain_policy;
  bool moves_bytes = false;  // fragments say where bytes lie, rows are named

  const RequestPlan& request(RequestId id) const { return requests[id.index()]; }
  void mark(TraceKind kind, RequestId request, std::int32_t iteration = -1, LayerId layer = {},
            std::int64_t value = 0, Bytes bytes = Bytes(0)) const {
    TraceRecord record;
    record.kind = kind;
    record.begin = record.end = loop.now();
    record.request = request;
    record.iteration = iteration;
    record.layer = layer;
    record.value = value;
    record.bytes = bytes;
    trace.record(record);
  }
};

// A worker: the GPUs of one tensor-parallel group; every one holds 1/size of heads, weights and KV.
struct Worker {
  std::vector<GpuId> gpus;
};

// Into how many equal parts the ranks of a worker divide a layer's KV: the latent vector of MLA is
// whole on each of them.
inline std::int64_t ranks_of(const KvLayout& layout, std::size_t layer, const Worker& worker) {
  return layout.layer(layer).attention == AttentionKind::latent
             ? 1
             : static_cast<std::int64_t>(worker.gpus.size());
}

}  // namespace kvlane
