#pragma once
// Moving bytes between instances, in RDMA's words. Behind it lives a simulated network (sim/net) or
// a real one. Rules that every world keeps:
//   * post() never blocks and never calls back; each post ends in exactly one completion, from the
//     loop, at the side that posted it;
//   * on one (endpoint, peer, lane, queue) transfers go one after the other in the order posted,
//   and
//     a message never overtakes the data posted before it: a mask update cannot announce rows that
//     are not there; queues of a lane share the wire alike;
//   * fragments and payload belong to the transport from post() to the completion;
//   * lanes have strict priority where the path can do it, in the order of the enum.

#include <cstdint>
#include <span>

#include "sim/base/strong_id.h"
#include "sim/base/units.h"
#include "sim/port/event_loop.h"

namespace kvlane {

enum class Lane : std::uint8_t { control, on_demand, proactive, speculative };
inline constexpr int kLaneCount = 4;
constexpr std::size_t index(Lane lane) { return static_cast<std::size_t>(lane); }

enum class TransferOp : std::uint8_t {
  write,           // one-sided; the destination learns nothing
  write_with_imm,  // one-sided data, then the message arrives at the destination
  send,            // two-sided: the message and its payload arrive at the destination
  read,            // one-sided: the poster fetches from the peer; completion at the poster
};

enum class MemoryKind : std::uint8_t { host, gpu };

enum class MessageKind : std::uint8_t {
  blocks_arrived,  // prefill -> decode: the runs of blocks of a layer are in place
  prefill_done,    // prefill -> decode: token 1 is known
  rows_wanted,     // decode -> prefill: remote index of a layer's selection
  rows_arrived,    // prefill -> decode: the rows of a rows_wanted
  network_idle,    // decode -> prefill: attention starts, the link is free for background data
  release,         // decode -> prefill: the KV of the request is not needed any more
};

// Blocks [first, first + count) of one layer of one request.
struct BlockRun {
  std::uint32_t layer = 0;
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  bool operator==(const BlockRun&) const = default;
};

// `rows` entries of a Message's index belong to this request.
struct RowGroup {
  RequestId request;
  std::uint32_t rows = 0;
  bool operator==(const RowGroup&) const = default;
};

// What a receiver is told. The spans are valid during the call only.
struct Message {
  MessageKind kind = MessageKind::blocks_arrived;
  RequestId request;
  LayerId layer;
  std::int32_t iteration = 0;
  std::int64_t rows = 0;     // rows_wanted, rows_arrived: (row, kv head) pairs
  std::uint64_t cookie = 0;  // given back unchanged in the answer
  std::span<const BlockRun> runs{};
  // rows_wanted, rows_arrived, in a world with memory: which rows. An entry is token of the layer x
  // kv heads + kv head (sim/kv/kv_layout.h).
  std::span<const RowGroup> groups{};
  std::span<const std::uint32_t> index{};
};

// A contiguous piece of a registered region. One-sided operations use the same offset at both ends:
// the KV of a request has one layout (sim/kv/kv_layout.h).
struct Fragment {
  RegionId region;
  std::int64_t offset = 0;  // bytes
  std::int64_t length = 0;  // bytes
};

struct TransferSpec {
  TransferOp op = TransferOp::write;
  Lane lane = Lane::proactive;
  EndpointId poster;  // whose completion it is
  EndpointId peer;
  std::uint32_t queue = 0;                      // queue pair of the lane: one a worker
  MemoryKind local_memory = MemoryKind::host;   // at the poster
  MemoryKind remote_memory = MemoryKind::host;  // at the peer
  GpuId local_gpu;  // the GPU whose memory or PCIe link is meant, where memory is gpu
  GpuId remote_gpu;
  Bytes bytes;                // payload; 0 is legal and completes like any other
  Bytes mask{0};              // KV mask update behind it: one byte a (layer,
                              // token), its own work request
  std::int64_t segments = 1;  // contiguous pieces at the gathering side: the transport makes
                              // ceil(segments / SGE limit) work requests of them
  std::int64_t targets = 1;   // contiguous pieces at the other side (a WRITE fills one each)
  std::span<const Fragment> fragments{};  // where the bytes lie; empty in a world without memory
  Message message{};                      // delivered for write_with_imm and send
  RequestId request;                      // for the trace
  bool metadata = false;                  // for the trace: selection metadata, not KV
};

enum class TransferStatus : std::uint8_t { ok, cancelled, failed };

struct TransferId {
  std::uint64_t value = 0;
  constexpr bool operator==(const TransferId&) const = default;
};

// Told of every arrival at an endpoint, from the loop.
class MessageHandler {
 public:
  virtual ~MessageHandler() = default;
  virtual void on_message(EndpointId from, const Message& message) = 0;
};

struct TransportLimits {
  int max_send_sge = 30;
  int max_recv_sge = 30;
  int max_read_sge = 30;
  Bytes max_inline{0};
  bool gpu_direct = true;
  bool lane_priority = true;
};

class Transport {
 public:
  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  virtual ~Transport() = default;

  // The completion's argument is the TransferStatus as a number.
  virtual TransferId post(const TransferSpec& spec, Callback completion) = 0;
  // Stops what has not left yet; the completion still comes, with `cancelled`. False: too late.
  virtual bool cancel(TransferId transfer) = 0;
  virtual void set_handler(EndpointId endpoint, MessageHandler* handler) = 0;
  virtual TransportLimits limits(EndpointId endpoint) const = 0;
};

}  // namespace kvlane
