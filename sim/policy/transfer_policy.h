#pragma once
// Which block goes when. A policy serves one request and is a function of its events: it gets `now`
// as an argument and returns actions; no clock, no I/O, no randomness of its own, so that equal
// events give equal actions in every world. Each side of the wire has its own instance: the prefill
// side sees the events up to WriteCompleted, the decode side the last two.

#include <cstdint>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "sim/base/units.h"
#include "sim/kv/kv_layout.h"
#include "sim/policy/push_order.h"
#include "sim/policy/strategy_options.h"
#include "sim/port/transport.h"

namespace kvlane {

// What a policy knows of its request from the start, the same at both sides.
struct TransferPlan {
  const KvLayout* layout = nullptr;
  const StrategyOptions* options = nullptr;
  const BlockOrder* order = nullptr;  // selective policies only
  double wire_ratio = 1;              // bytes on the wire / bytes of 16-bit KV
  std::vector<Bytes> metadata;        // [layer] selection metadata, 0 where nothing selects
  std::int64_t cached_tokens = 0;     // prefix that prefill need not compute
  // Auto-switch only: prompt rows that the first decode step selects, their bytes on the wire, and
  // the share of selections (by importance) that each rank of `order` holds is taken from its
  // weights.
  Bytes first_step_rows{0};

  Bytes wire_bytes(const BlockRun& run) const;
  Bytes wire_bytes(Bytes stored) const;
};

// --- events at the prefill side
struct PrefillStarted {
  Duration prefill{0};  // T_p: what the cost model expects
  Bandwidth bandwidth;  // what this request gets of the ports between prefill and decode
};
struct LayerHandedOver {
  LayerId layer;  // its KV lies where the NIC can read it
};
struct PrefillFinished {};  // token 1 is known
struct NetworkIdle {
  std::int32_t iteration = 0;  // a layer's attention of this decode iteration has begun
};
struct BlocksFetched {  // row by row, and kept: no need to push them
  std::span<const BlockRun> runs;
};
struct WriteCompleted {
  Lane lane = Lane::proactive;
  Bytes bytes{0};
};
// --- events at the decode side
struct BlocksArrived {
  std::span<const BlockRun> runs;
  LayerId metadata_of;  // valid: this layer's selection metadata arrived with it
};
struct PrefillDoneHeard {
  bool wait_for_all = false;  // the prefill side has switched to a full transfer
};

using PolicyEvent = std::variant<PrefillStarted, LayerHandedOver, PrefillFinished, NetworkIdle,
                                 BlocksFetched, WriteCompleted, BlocksArrived, PrefillDoneHeard>;

// --- actions
struct WriteMetadata {
  LayerId layer;
  Bytes bytes{0};
  bool operator==(const WriteMetadata&) const = default;
};
struct WriteBlocks {
  Lane lane = Lane::proactive;
  Bytes bytes{0};              // on the wire
  std::vector<BlockRun> runs;  // ascending by (layer, first), adjacent blocks merged
  bool operator==(const WriteBlocks&) const = default;
};
struct AnnounceDone {  // tell the decode side that token 1 is known
  bool wait_for_all = false;
  bool operator==(const AnnounceDone&) const = default;
};
struct StartDecode {  // the sequence may join the decode batch
  bool operator==(const StartDecode&) const = default;
};

using PolicyAction = std::variant<WriteMetadata, WriteBlocks, AnnounceDone, StartDecode>;

class TransferPolicy {
 public:
  TransferPolicy() = default;
  TransferPolicy(const TransferPolicy&) = delete;
  TransferPolicy& operator=(const TransferPolicy&) = delete;
  virtual ~TransferPolicy() = default;
  // Appends to `actions`.
  virtual void on_event(TimePoint now, const PolicyEvent& event,
                        std::vector<PolicyAction>& actions) = 0;
};

// `plan` outlives the policy.
std::unique_ptr<TransferPolicy> make_policy(const TransferPlan& plan);

// Blocks sorted ascending become runs; adjacent ones merge.
void append_runs(std::uint32_t layer, std::span<const std::uint32_t> blocks,
                 std::vector<BlockRun>& runs);

}  // namespace kvlane
