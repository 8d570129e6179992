#pragma once
// The work of a GPU and of the PCIe link beside it. Behind it lives a cost model (sim/gpu) or real
// kernels. Work on one (gpu, stream) runs in the order posted, one at a time; the streams of a GPU
// run beside each other, those of a CPU in turn; a copy occupies its PCIe direction and host
// memory. post() never blocks, each post ends in exactly one completion from the loop.

#include <cstdint>

#include "sim/base/strong_id.h"
#include "sim/base/units.h"
#include "sim/port/event_loop.h"

namespace kvlane {

enum class Stream : std::uint8_t { compute, side };

enum class WorkKind : std::uint8_t {
  prefill_layer,   // new_tokens over context_tokens: norms, QKV, attention, O, FFN, collectives;
                   // batch > 1: that many prompts of equal length, none cached
  prefill_head,    // final norm, LM head of the last token, sampling
  build_metadata,  // InfiniGen partial keys or HATA codes of new_tokens
  quantise,        // elements values of KV to `kv_bits`
  dequantise,
  decode_qkv,        // batch tokens: norm and QKV projection
  select,            // scores of batch sequences over context_tokens, top-k
  decode_attention,  // batch sequences over attended_rows in all
  decode_ffn,        // O projection and FFN of batch tokens, collectives
  decode_head,       // LM head and sampling of batch tokens
  host_step,         // scheduler and launch overhead of an iteration
  gather_host,       // rows copied together in host memory; the CPU's, no stream waits for it
};

// Shapes of one piece of work; fields that a kind does not name stay 0.
struct Work {
  WorkKind kind = WorkKind::host_step;
  LayerId layer{};
  std::int64_t batch = 0;  // sequences
  std::int64_t new_tokens = 0;
  std::int64_t context_tokens =
      0;                           // prefill: keys per query at the end; decode: sum over the batch
  std::int64_t attended_rows = 0;  // (row, kv head) pairs over the batch
  std::int64_t elements = 0;       // quantise, dequantise
  Bytes bytes{0};                  // gather_host
  std::int32_t kv_bits = 16;    // payload of the KV that the kernel reads; 16: as stored, 2: HACK
  std::int32_t partition = 64;  // kv_bits 2: tokens that share a scale (HACK's Pi)
  std::int32_t selector_bytes = 0;  // select, build_metadata: metadata a (row, kv head)
  bool hashed = false;              // select, build_metadata: HATA codes, else InfiniGen's keys
  RequestId request{};              // for the trace
  std::int32_t iteration = -1;
};

enum class CopyDirection : std::uint8_t { host_to_device, device_to_host };

struct CopySpec {
  CopyDirection direction = CopyDirection::host_to_device;
  GpuId gpu;
  Bytes bytes{0};
  std::int64_t copies = 1;  // launches, each with its fixed cost
  RequestId request{};
  LayerId layer{};
  std::int32_t iteration = -1;
};

class Compute {
 public:
  Compute() = default;
  Compute(const Compute&) = delete;
  Compute& operator=(const Compute&) = delete;
  virtual ~Compute() = default;

  virtual void post(GpuId gpu, Stream stream, const Work& work, Callback completion) = 0;
  virtual void copy(const CopySpec& copy, Callback completion) = 0;
  // What the cost model expects the work to take alone (CostModel::expected); policies plan with
  // it.
  virtual Duration estimate(GpuId gpu, const Work& work) const = 0;
};

}  // namespace kvlane
