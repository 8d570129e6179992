// Link: operations become work requests, in the order of the lanes, as credits and room allow.

#include <algorithm>
#include <cstring>

#include "calibrate/live/rdma/link.h"
#include "calibrate/live/wire/checksum.h"
#include "sim/base/check.h"

namespace kvlane::live {
namespace {

// A WRITE cannot be recalled: what is urgent waits for at most one of these a background queue.
constexpr std::int64_t kLongestRun = 256 * 1024;
constexpr std::size_t kMostPieces = 4096;       // of one record
constexpr std::uint64_t kListBytesAPiece = 32;  // at most, with what a stretch of one piece costs
// From this mean length on the device gathers pieces itself; shorter ones cost it more than a copy
// costs the processor.
constexpr std::int64_t kGatherFrom = 4096;

}  // namespace

LaneQueue& Link::queue_at(Lane lane, std::uint32_t queue) {
  return queues_[index(lane) * options_.queues + queue % options_.queues];
}

QueuePair& Link::read_pair(Lane lane) { return *pairs_[queues_.size() + index(lane)]; }

void Link::post(const Operation& operation) {
  KVLANE_CHECK(state_ != State::made && state_ != State::greeting, "posted before it was taken");
  KVLANE_CHECK(operation.message.size() <= message_bytes_ || over(),
               "a message of {} bytes; this connection takes {}", operation.message.size(),
               message_bytes_);
  if (over()) return;
  auto task = std::make_unique<Task>();
  task->operation = &operation;
  task->id = operation.id;
  task->number = ++operations_;
  ++counters_.operations;
  counters_.fragments += operation.fragments.size();
  queue_at(operation.lane, operation.queue).tasks.push_back(std::move(task));
  schedule_pump();
}

// True: it is forgotten, and whoever cancelled it completes it.
bool Link::cancel(std::uint64_t id) {
  if (over()) return false;
  for (LaneQueue& queue : queues_) {
    for (std::size_t i = queue.next; i < queue.tasks.size(); ++i) {
      const Task& task = *queue.tasks[i];
      if (task.id != id) continue;
      if (task.begin != kNever) return false;
      reads_.erase(task.number);
      queue.tasks.erase(queue.tasks.begin() + static_cast<std::ptrdiff_t>(i));
      return true;
    }
  }
  return false;
}

// Later in this turn of the loop: what is posted together leaves with one doorbell.
void Link::schedule_pump() {
  if (pump_timer_ || state_ != State::running) return;
  pump_timer_ =
      shared_.loop->schedule_at(shared_.loop->now(), {[](void* self, std::uint64_t) {
                                                        auto* link = static_cast<Link*>(self);
                                                        const auto alive = link->shared_from_this();
                                                        link->pump_timer_ = {};
                                                        link->pump();
                                                      },
                                                      this, 0});
}

void Link::pump() {
  if (state_ != State::running) return;
  for (LaneQueue& queue : queues_) send_acks(queue);
  for (int lane = 0; lane < kLaneCount; ++lane) {
    const auto first = static_cast<std::size_t>(lane) * options_.queues;
    // Its queues take turns.
    for (bool moved = true; moved;) {
      moved = false;
      for (std::uint32_t i = 0; i < options_.queues; ++i) {
        moved = step(queues_[first + (i + turn_) % options_.queues]) || moved;
      }
      ++turn_;
    }
  }
  for (const auto& pair : pairs_) {
    if (pair->batch_empty()) continue;
    ++counters_.doorbells;
    if (const std::string why = pair->flush(); !why.empty()) return lose("RDMA: " + why);
  }
  // Those that needed no work request at all.
  for (LaneQueue& queue : queues_) {
    complete(queue);
    if (over()) return;
  }
}

void Link::prepare(Task& task) {
  const Operation& operation = *task.operation;
  task.prepared = true;
  const std::int64_t longest =
      std::min({kLongestRun, static_cast<std::int64_t>(record_bytes_),
                static_cast<std::int64_t>(std::max(shared_.device->port().max_msg_sz, 4096U))});
  auto pieces = place_fragments(operation.fragments, *memory_.local, *memory_.remote,
                                theirs_.pool.bytes, longest);
  if (!pieces) {
    task.status = TransferStatus::failed;
    return;
  }
  task.pieces = std::move(*pieces);
  const bool read = operation.op == TransferOp::read;
  const bool message =
      operation.op == TransferOp::write_with_imm || operation.op == TransferOp::send;
  task.packed = !task.pieces.empty() && (packing_wins(task.pieces) || (read && options_.checksum));
  task.records = message || task.packed || (options_.checksum && !task.pieces.empty());
  PartLimits limits{std::numeric_limits<std::size_t>::max(),
                    std::numeric_limits<std::int64_t>::max()};
  if (task.packed || options_.checksum) {
    limits = {std::min(kMostPieces, static_cast<std::size_t>(record_bytes_ / kListBytesAPiece)),
              static_cast<std::int64_t>(record_bytes_)};
  }
  if (task.packed && !read) {
    ++counters_.packed;
    const auto count = static_cast<std::int64_t>(task.pieces.size());
    // One SGE is the header's.
    const auto gathered = static_cast<std::size_t>(pairs_.front()->max_sge() - 1);
    if (operation.bytes >= kGatherFrom * count && gathered >= 8) {
      task.by_device = true;
      limits.pieces = gathered;
    }
  }
  task.parts = make_parts(task.pieces, limits);
  if (read && task.packed) {
    ++counters_.packed;
    task.replies.assign(task.parts.size(), false);
    task.waiting_replies = task.parts.size();
    reads_[task.number] = &task;
  }
}

// One work request, or a record, of the queue's first open task. False: nothing to do now.
bool Link::step(LaneQueue& queue) {
  if (is_background(queue.lane) && background_bytes_ >= shared_.options.background_bytes)
    return false;
  if (step_answer(queue)) return true;
  if (queue.next >= queue.tasks.size()) return false;
  Task& task = *queue.tasks[queue.next];
  if (!task.prepared) prepare(task);
  if (task.status != TransferStatus::ok) {
    // What the peer was asked for already still comes.
    pass(queue, task);
    return true;
  }
  if (task.pieces.empty() && !task.records) {
    task.begin = task.applied = shared_.loop->clock();
    pass(queue, task);
    return true;
  }
  if (task.packed) return step_record(queue, task);
  if (task.runs.empty() && !task.pieces.empty()) {
    const Part& part = task.parts[task.next_part];
    const bool read = task.operation->op == TransferOp::read;
    task.runs = make_runs(std::span(task.pieces).subspan(part.first, part.pieces),
                          (read ? read_pair(queue.lane) : *queue.pair).max_sge(), kLongestRun);
  }
  if (task.next_run == task.runs.size()) return step_record(queue, task);
  return step_plain(queue, task);
}

bool Link::step_plain(LaneQueue& queue, Task& task) {
  const bool read = task.operation->op == TransferOp::read;
  QueuePair& pair = read ? read_pair(queue.lane) : *queue.pair;
  // Two are kept for acks, which others wait for.
  if (pair.room() < 3) {
    ++counters_.starved;
    return false;
  }
  const Part& part = task.parts[task.next_part];
  const Run& run = task.runs[task.next_run];
  std::array<ibv_sge, 32> places;
  for (std::size_t i = 0; i < run.pieces; ++i) {
    const Piece& piece = task.pieces[part.first + run.first + i];
    places[i].addr = reinterpret_cast<std::uint64_t>(shared_.pool->addr) +
                     static_cast<std::uint64_t>(piece.local);
    places[i].length = static_cast<std::uint32_t>(piece.named.fragment.length);
    places[i].lkey = shared_.pool->lkey;
  }
  WorkRequest request;
  request.opcode = read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
  request.pieces = std::span(places).first(run.pieces);
  request.remote_address =
      theirs_.pool.address + static_cast<std::uint64_t>(task.pieces[part.first + run.first].remote);
  request.remote_key = theirs_.pool.key;
  pair.add(request);
  ++counters_.work_requests;
  if (task.begin == kNever) task.begin = shared_.loop->clock();
  (read ? counters_.bytes_in : counters_.bytes_out) += static_cast<std::uint64_t>(run.bytes);
  if (is_background(queue.lane)) background_bytes_ += run.bytes;
  ++task.next_run;
  if (task.next_run == task.runs.size() && !task.records) {
    pair.signal(&task);
    ++task.waiting_sends;
    pass(queue, task);
  }
  return true;
}

std::optional<std::uint64_t> Link::take_slot(const LaneQueue& queue, std::uint64_t bytes) {
  // The background leaves a quarter of room and credits to what is urgent.
  const bool background = is_background(queue.lane);
  if (credits_ <= (background ? credits_in_all_ / 4 : 0)) return std::nullopt;
  auto slot = ring_.take(bytes, background ? 3 : 4);
  if (slot) --credits_;
  return slot;
}

std::uint32_t Link::checksum_of(std::span<const Piece> pieces) const {
  std::uint32_t sum = 0;
  for (const Piece& piece : pieces) {
    sum = checksum({memory_.local->pool().data() + piece.local,
                    static_cast<std::size_t>(piece.named.fragment.length)},
                   sum);
  }
  return sum;
}

bool Link::step_record(LaneQueue& queue, Task& task) {
  const Operation& operation = *task.operation;
  const Part& part = task.parts[task.next_part];
  const auto pieces = std::span(task.pieces).subspan(part.first, part.pieces);
  const bool last = task.next_part + 1 == task.parts.size();
  const bool read = operation.op == TransferOp::read;
  if (queue.pair->room() < 3 || credits_ == 0 ||
      (read && requests_ >= most_requests(credits_in_all_))) {
    ++counters_.starved;
    return false;
  }
  RecordHeader header;
  header.kind = read          ? RecordKind::read_request
                : task.packed ? RecordKind::packed
                              : RecordKind::placed;
  header.operation = task.number;
  header.part = static_cast<std::uint32_t>(task.next_part);
  header.piece_bytes = part.bytes;
  std::vector<std::byte> list;
  if (!pieces.empty()) {
    std::vector<EpochFragment> names = names_of(pieces);
    // Bytes that were placed one-sidedly are named for their epoch's sake: the ends of each region
    // will do, where nobody looks at all of them.
    if (header.kind == RecordKind::placed && !options_.checksum) names = ends_of(names);
    header.piece_bytes = 0;
    for (const EpochFragment& name : names) header.piece_bytes += name.fragment.length;
    Writer out(list);
    encode_fragments(names, out);
  }
  const std::size_t message = last && !read ? operation.message.size() : 0;
  header.has_message = last && !operation.message.empty() && !read;
  header.message_bytes = static_cast<std::uint32_t>(message);
  header.list_bytes = static_cast<std::uint32_t>(list.size());
  const std::size_t head = kRecordHeaderBytes + message + list.size();
  const auto payload = static_cast<std::size_t>(task.packed && !read ? part.bytes : 0);
  const auto slot = take_slot(queue, head + payload);
  if (!slot) {
    ++counters_.starved;
    return false;
  }
  if (options_.checksum && !read) {
    header.has_checksum = true;
    header.checksum = checksum_of(pieces);
    if (++checksums_ == shared_.options.wrong_checksum) header.checksum ^= 1U;
  }
  std::byte* at = outbox_ + *slot;
  encode_record_header(header, {at, kRecordHeaderBytes});
  std::copy_n(operation.message.begin(), message, at + kRecordHeaderBytes);
  std::copy(list.begin(), list.end(), at + kRecordHeaderBytes + message);
  std::array<ibv_sge, 32> places;
  std::size_t count = 1;
  places[0] = {reinterpret_cast<std::uint64_t>(at), static_cast<std::uint32_t>(head),
               control_region_->lkey};
  if (task.by_device) {
    for (const Piece& piece : pieces) {
      places[count++] = {reinterpret_cast<std::uint64_t>(shared_.pool->addr) +
                             static_cast<std::uint64_t>(piece.local),
                         static_cast<std::uint32_t>(piece.named.fragment.length),
                         shared_.pool->lkey};
    }
  } else if (payload > 0) {
    std::byte* to = at + head;
    for (const Piece& piece : pieces) {
      const auto length = static_cast<std::size_t>(piece.named.fragment.length);
      std::memcpy(to, memory_.local->pool().data() + piece.local, length);
      to += length;
    }
    places[0].length += static_cast<std::uint32_t>(payload);
  }
  if (task.begin == kNever) task.begin = shared_.loop->clock();
  if (read) ++requests_;
  counters_.bytes_out += payload;
  send_record(queue, task, *slot, std::span(places).first(count));
  if (is_background(queue.lane)) {
    for (std::size_t i = 0; i < count; ++i) background_bytes_ += places[i].length;
  }
  ++task.next_part;
  task.runs.clear();
  task.next_run = 0;
  if (last) pass(queue, task);
  return true;
}

void Link::send_record(LaneQueue& queue, Task& task, std::uint64_t slot,
                       std::span<const ibv_sge> pieces) {
  WorkRequest request;
  request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  request.pieces = pieces;
  request.remote_address = theirs_.inbox.address + slot;
  request.remote_key = theirs_.inbox.key;
  request.immediate = encode_immediate(slot, theirs_.connection);
  queue.pair->add(request);
  queue.pair->signal(&task);
  ++counters_.work_requests;
  ++task.waiting_sends;
  ++task.waiting_acks;
  slots_[static_cast<std::uint32_t>(slot / kSlotUnit)] = {&queue, &task};
}

// The peer's wish is looked at when its bytes are read, not when it came: a region may have been
// withdrawn since.
bool Link::step_answer(LaneQueue& queue) {
  const auto open = std::find_if(queue.answers.begin(), queue.answers.end(),
                                 [](const auto& answer) { return !answer->posted; });
  if (open == queue.answers.end()) return false;
  Task& task = **open;
  RecordHeader header;
  header.kind = RecordKind::read_reply;
  header.operation = task.number;
  header.part = task.part;
  std::vector<std::span<const std::byte>> found;
  for (const EpochFragment& wanted : task.wanted) {
    const Fragment& f = wanted.fragment;
    const std::byte* at = memory_.place(wanted);
    if (at == nullptr) {
      header.kind = RecordKind::read_refused;
      found.clear();
      break;
    }
    found.emplace_back(at, static_cast<std::size_t>(f.length));
  }
  std::size_t bytes = 0;
  for (const auto& piece : found) bytes += piece.size();
  header.piece_bytes = static_cast<std::int64_t>(bytes);
  if (queue.pair->room() < 3) {
    ++counters_.starved;
    return false;
  }
  const auto slot = take_slot(queue, kRecordHeaderBytes + bytes);
  if (!slot) {
    ++counters_.starved;
    return false;
  }
  std::byte* at = outbox_ + *slot;
  std::byte* to = at + kRecordHeaderBytes;
  for (const auto& piece : found) {
    std::copy(piece.begin(), piece.end(), to);
    to += piece.size();
  }
  if (options_.checksum) {
    header.has_checksum = true;
    header.checksum = checksum({at + kRecordHeaderBytes, bytes});
    if (++checksums_ == shared_.options.wrong_checksum) header.checksum ^= 1U;
  }
  encode_record_header(header, {at, kRecordHeaderBytes});
  const ibv_sge place{reinterpret_cast<std::uint64_t>(at),
                      static_cast<std::uint32_t>(kRecordHeaderBytes + bytes),
                      control_region_->lkey};
  counters_.bytes_out += bytes;
  if (is_background(queue.lane)) background_bytes_ += place.length;
  send_record(queue, task, *slot, {&place, 1});
  --answers_;
  task.posted = true;
  return true;
}

void Link::pass(LaneQueue& queue, Task& task) {
  task.posted = true;
  if (task.status != TransferStatus::ok && task.waiting_replies > 0) {
    // Parts that were never asked for do not come.
    task.waiting_replies -= task.parts.size() - task.next_part;
  }
  ++queue.next;
}

void Link::send_acks(LaneQueue& queue) {
  std::size_t sent = 0;
  while (sent < queue.acks.size() && queue.pair->room() > 0 && !free_ack_buffers_.empty()) {
    const int buffer = free_ack_buffers_.back();
    free_ack_buffers_.pop_back();
    const std::size_t count = std::min(queue.acks.size() - sent, kAcksTogether);
    std::byte* at = ack_buffers_ + static_cast<std::size_t>(buffer) * 256;
    const std::size_t bytes =
        encode_acks(std::span(queue.acks).subspan(sent, count), {at, std::size_t{256}});
    const ibv_sge place{reinterpret_cast<std::uint64_t>(at), static_cast<std::uint32_t>(bytes),
                        control_region_->lkey};
    WorkRequest request;
    request.opcode = IBV_WR_SEND;
    request.pieces = {&place, 1};
    queue.pair->add(request);
    queue.pair->signal(nullptr, buffer);
    if (is_background(queue.lane)) background_bytes_ += place.length;
    ++counters_.work_requests;
    sent += count;
  }
  queue.acks.erase(queue.acks.begin(), queue.acks.begin() + static_cast<std::ptrdiff_t>(sent));
}

void Link::retired(const Sent& sent, Lane lane) {
  if (is_background(lane)) background_bytes_ -= sent.bytes;
  if (sent.ack_buffer >= 0) free_ack_buffers_.push_back(sent.ack_buffer);
  if (sent.task == nullptr) return;
  Task& task = *sent.task;
  --task.waiting_sends;
  // Without the peer's own word the device's is the time.
  if (!task.records) task.applied = std::max(task.applied, shared_.loop->clock());
}

void Link::complete(LaneQueue& queue) {
  std::erase_if(queue.answers, [](const auto& answer) { return answer->finished(); });
  while (!queue.tasks.empty() && queue.tasks.front()->finished()) {
    const std::unique_ptr<Task> task = std::move(queue.tasks.front());
    queue.tasks.pop_front();
    --queue.next;
    reads_.erase(task->number);
    const TimePoint now = shared_.loop->clock();
    const bool applied = task->applied != TimePoint::min();
    owner_.completed(task->id, task->status, std::min(task->begin, now),
                     !task->records && task->operation->op == TransferOp::write ? kNotTold
                     : applied                                                  ? task->applied
                                                                                : now);
    if (over()) return;
  }
}

}  // namespace kvlane::live
