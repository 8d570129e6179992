#pragma once
// A reliable connection's queue pair: its states, and sending with one doorbell for many work
// requests and one completion for up to 32 of them.

#include <infiniband/verbs.h>

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "calibrate/live/rdma/device.h"
#include "calibrate/live/rdma/offer.h"

namespace kvlane::live {

struct Task;

// What a signaled work request completes: itself and those before it without a signal.
struct Sent {
  std::uint32_t sequence = 0, work_requests = 0;
  std::int64_t bytes = 0;
  Task* task = nullptr;  // null: nobody waits
  int ack_buffer = -1;
};

struct WorkRequest {
  ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE;
  std::span<const ibv_sge> pieces;
  std::uint64_t remote_address = 0;
  std::uint32_t remote_key = 0;
  std::uint32_t immediate = 0;
};

struct QueuePairSetup {
  ibv_cq* cq = nullptr;
  ibv_srq* srq = nullptr;
  std::uint32_t depth = 0, index = 0;  // the index comes back in work completions
  int max_sge = 1;
  std::uint8_t service_level = 0, traffic_class = 0, receiver_retries = 0;
};

class QueuePair {
 public:
  // Made, and in INIT. Throws RdmaError.
  QueuePair(Device& device, const QueuePairSetup& setup);

  QueuePairOffer offer() const { return {pair_->qp_num, first_psn_}; }
  // INIT -> RTR -> RTS. Empty, or what went wrong.
  std::string connect(const RdmaOffer& theirs, const QueuePairOffer& pair);
  // Starts anew with the same numbers: for a greeting that nobody heard.
  std::string connect_again(const RdmaOffer& theirs, const QueuePairOffer& pair);
  void shut();  // ERR: what was posted is flushed, nothing more is taken from the peer

  std::uint32_t room() const { return depth_ - in_flight_; }
  bool idle() const { return in_flight_ == 0; }
  int max_sge() const { return max_sge_; }
  std::uint32_t max_inline() const { return max_inline_; }
  std::uint32_t index() const { return index_; }
  // Into the batch that the next flush() posts; room() was asked before. `bytes` of a READ or WRITE
  // count into the Sent that covers it.
  void add(const WorkRequest& request);
  // The last one added is signaled and completes `task`.
  void signal(Task* task, int ack_buffer = -1);
  // One doorbell. Empty, or what went wrong: what was posted before the bad one is the device's
  // until the queue pair is gone, the rest never leaves.
  std::string flush();
  bool batch_empty() const { return batch_.empty(); }
  // A signaled work request has completed.
  Sent retire(std::uint32_t sequence);

 private:
  std::string to_init();
  std::uint32_t index_, depth_ = 0, in_flight_ = 0, max_inline_ = 0, first_psn_;
  int max_sge_ = 1;
  Device& device_;
  std::uint8_t service_level_, traffic_class_, receiver_retries_;
  Verbs<ibv_qp, ibv_destroy_qp> pair_;
  std::vector<ibv_send_wr> batch_;
  std::vector<ibv_sge> batch_pieces_;
  std::uint32_t sequence_ = 0, unsignaled_ = 0;
  std::int64_t unsignaled_bytes_ = 0;
  std::deque<Sent> sent_;
};

inline constexpr std::uint64_t kReceiveId = std::uint64_t{1} << 63U;

}  // namespace kvlane::live
