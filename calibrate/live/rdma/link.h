#pragma once
// One connection to one peer: its queue pairs, the operations in them, and what the peer sends.
//
//   * an operation without a message whose pieces are few or long: a WRITE (READ) for each run of
//     the peer's bytes, complete at its completion queue entry;
//   * everything that the peer's processor has a part in travels as a record (record.h): the sender
//     takes room in the peer's inbox and a credit (a posted RECV), WRITEs the record there with an
//     immediate that names the slot, after the data on the same queue pair. The peer looks at
//     bounds and checksum, puts packed pieces in place, tells its owner, and answers with an ack,
//     which frees slot and credit and completes the operation;
//   * READs have queue pairs of their own, one a lane, so that they do not wait behind WRITEs.
// Operations of one (lane, queue) complete in the order posted.
//
// The half of a peer's RECVs that is not for records is for acks: at most one for each record that
// is not acknowledged, so that neither ever finds none posted.

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "calibrate/live/rdma/device.h"
#include "calibrate/live/rdma/offer.h"
#include "calibrate/live/rdma/plan.h"
#include "calibrate/live/rdma/queue_pair.h"
#include "calibrate/live/rdma/record.h"
#include "calibrate/live/rdma/ring.h"

namespace kvlane::live {

// What a link shares with the other links of its backend.
struct LinkShared {
  WallLoop* loop = nullptr;
  Device* device = nullptr;
  ibv_mr* pool = nullptr;
  RdmaOptions options;
  std::uint32_t process_epoch = 0;
};

struct Unmap {
  std::size_t bytes = 0;
  void operator()(std::byte* data) const { ::munmap(data, bytes); }
};

// An operation, or the answer to one of the peer's.
struct Task {
  const Operation* operation = nullptr;  // null: an answer
  std::uint64_t id = 0;                  // the owner's
  std::uint64_t number = 0;              // ours: in records
  bool prepared = false, packed = false, by_device = false, posted = false;
  bool records = false;  // the peer has a part in it
  std::vector<Piece> pieces;
  std::vector<Part> parts;
  std::vector<Run> runs;  // of the part at hand
  std::size_t next_part = 0, next_run = 0;
  std::uint32_t waiting_sends = 0, waiting_acks = 0;
  std::vector<bool> replies;  // of a packed read, by part
  std::size_t waiting_replies = 0;
  TransferStatus status = TransferStatus::ok;
  TimePoint begin = kNever, applied = TimePoint::min();
  // An answer: what the peer wants.
  std::vector<EpochFragment> wanted;
  std::uint32_t part = 0;
  bool finished() const {
    return posted && waiting_sends == 0 && waiting_acks == 0 && waiting_replies == 0;
  }
};

// One of a lane's queues.
struct LaneQueue {
  Lane lane = Lane::control;
  std::uint32_t queue = 0;
  QueuePair* pair = nullptr;
  std::deque<std::unique_ptr<Task>> answers;  // to the peer's reads; never wait behind our own
  std::deque<std::unique_ptr<Task>> tasks;
  std::size_t next = 0;       // the first that is not posted whole
  std::vector<SlotAck> acks;  // to be sent
  bool refusing = false;      // a part of the peer's operation `refused` could not be applied:
  std::uint64_t refused = 0;  // what follows of it is not told either
};

class Link final : public Pollable,
                   public Background,
                   public DeviceListener,
                   public std::enable_shared_from_this<Link> {
 public:
  Link(const LinkShared& shared, ConnectionOwner& owner, const ConnectionMemory& memory,
       const ConnectionOptions& options, bool passive, Callback ready);
  ~Link() override { close(); }

  std::vector<std::byte> offer() const;
  void connect(std::span<const std::byte> from_peer);
  const std::string& error() const { return error_; }
  bool ready() const { return state_ == State::ready; }
  void start();  // from now on the owner is told

  void post(const Operation& operation);
  bool cancel(std::uint64_t id);
  void close();
  void keep_alive();
  TransportLimits limits() const;
  const ConnectionCounters& counters() const { return counters_; }

  void on_ready(int fd, std::uint32_t epoll_events) override;
  bool advance() override { return drain(); }
  void on_fault(std::uint32_t queue_pair, const ibv_cq* cq, const std::string& reason) override;

 private:
  enum class State : std::uint8_t { made, greeting, ready, running, lost, closed };

  // link.cpp
  RdmaOffer describe() const;
  void greet();
  void greeting_failed(const std::string& reason);
  bool drain();
  void handle(const ibv_wc& completion);
  void handle_greeting(const ibv_wc& completion);
  void handle_error(const ibv_wc& completion);
  void lose(const std::string& reason);
  void shut_all();
  bool over() const { return state_ == State::lost || state_ == State::closed; }
  void post_receives();
  QueuePair* pair_of(std::uint32_t number);

  // link_send.cpp
  LaneQueue& queue_at(Lane lane, std::uint32_t queue);
  QueuePair& read_pair(Lane lane);
  void schedule_pump();
  void pump();
  bool step(LaneQueue& queue);
  bool step_plain(LaneQueue& queue, Task& task);
  bool step_record(LaneQueue& queue, Task& task);
  bool step_answer(LaneQueue& queue);
  void prepare(Task& task);
  void send_acks(LaneQueue& queue);
  std::uint32_t checksum_of(std::span<const Piece> pieces) const;
  void pass(LaneQueue& queue, Task& task);  // the last of it has been posted
  std::optional<std::uint64_t> take_slot(const LaneQueue& queue, std::uint64_t bytes);
  void send_record(LaneQueue& queue, Task& task, std::uint64_t slot,
                   std::span<const ibv_sge> pieces);
  void retired(const Sent& sent, Lane lane);
  void complete(LaneQueue& queue);

  // link_receive.cpp
  void receive_record(LaneQueue& queue, std::uint32_t immediate);
  void receive_acks(LaneQueue& queue, std::span<const std::byte> bytes);
  AckStatus apply(LaneQueue& queue, const Record& record);
  bool receive_reply(LaneQueue& queue, const Record& record);
  void receive_request(LaneQueue& queue, Record&& record);

  // Packed reads under way: acknowledged at once, so that nothing waits in a circle, and bounded
  // themselves. `credits` of the side that asks.
  static std::uint32_t most_requests(std::uint32_t credits) { return std::max(1U, credits / 2); }
  bool is_background(Lane lane) const { return lane >= Lane::proactive; }

  const LinkShared shared_;
  ConnectionOwner& owner_;
  const ConnectionMemory memory_;
  const ConnectionOptions options_;
  const bool passive_;
  const Callback ready_;
  State state_ = State::made;
  std::string error_;
  std::uint32_t connection_ = 0;  // random: our end's number, in what the peer sends us
  RdmaOffer theirs_;

  // Control memory in one registration without relaxed ordering: inbox, outbox, receives, acks.
  std::unique_ptr<std::byte, Unmap> control_;
  std::byte *inbox_ = nullptr, *outbox_ = nullptr, *receives_ = nullptr, *ack_buffers_ = nullptr;
  std::uint64_t inbox_bytes_ = 0;
  // Agreed by both ends: of one record's pieces, and of a message, which is in one record.
  std::uint64_t record_bytes_ = 0, message_bytes_ = 0;
  MemoryRegion control_region_;

  Verbs<ibv_comp_channel, ibv_destroy_comp_channel> channel_;
  Verbs<ibv_cq, ibv_destroy_cq> cq_;
  Verbs<ibv_srq, ibv_destroy_srq> srq_;
  std::vector<std::unique_ptr<QueuePair>> pairs_;  // as the offer orders them
  std::unordered_map<std::uint32_t, QueuePair*> by_number_;
  std::vector<LaneQueue> queues_;
  QueuePair* greeter_ = nullptr;
  unsigned int events_ = 0;             // of the CQ, not acknowledged yet
  std::vector<ibv_wc> early_;           // came before start()
  std::vector<std::uint64_t> emptied_;  // receives to be posted again
  std::string flushed_;                 // an error that may have a cause elsewhere

  Ring ring_{0};
  std::uint32_t credits_ = 0, credits_in_all_ = 0;
  std::uint32_t requests_ = 0, answers_ = 0;  // of packed reads: ours not answered, the peer's
  std::unordered_map<std::uint32_t, std::pair<LaneQueue*, Task*>> slots_;  // not acknowledged
  std::unordered_map<std::uint64_t, Task*> reads_;                         // by number
  std::vector<int> free_ack_buffers_;
  std::int64_t background_bytes_ = 0;
  std::uint64_t operations_ = 0, checksums_ = 0;
  std::uint32_t turn_ = 0;
  TimerId pump_timer_, greeting_timer_, ready_timer_;
  ConnectionCounters counters_;
};

}  // namespace kvlane::live
