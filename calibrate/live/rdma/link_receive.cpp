// Link: what the peer sends. Nothing of it is believed: slots, sizes, pieces and numbers are looked
// at before a byte is touched.

#include <fmt/format.h>

#include <algorithm>

#include "calibrate/live/rdma/link.h"
#include "calibrate/live/wire/checksum.h"

namespace kvlane::live {

void Link::receive_record(LaneQueue& queue, std::uint32_t immediate) {
  const std::uint64_t slot = (immediate >> 8U) * kSlotUnit;
  if ((immediate & 0xffU) != (connection_ & 0xffU) || slot >= inbox_bytes_) {
    return lose(fmt::format(
        "RDMA: the peer speaks of slot {} of connection {:#x}; this one has {} bytes and is {:#x}",
        slot, immediate & 0xffU, inbox_bytes_, connection_ & 0xffU));
  }
  std::string why;
  auto record = parse_record({inbox_ + slot, inbox_bytes_ - slot}, why);
  if (!record) return lose("RDMA: the peer sent " + why);
  SlotAck ack;
  ack.slot = immediate >> 8U;
  switch (record->header.kind) {
    case RecordKind::placed:
    case RecordKind::packed: {
      ack.status = apply(queue, *record);
      if (over()) return;
      const TimePoint applied = shared_.loop->clock();
      ack.applied_ps = applied.time_since_epoch().count();
      if (ack.status == AckStatus::applied && record->header.has_message) {
        owner_.arrived(queue.lane, queue.queue, record->message);
        if (over()) return;
      }
      break;
    }
    case RecordKind::read_request:
      receive_request(queue, std::move(*record));
      if (over()) return;
      break;
    case RecordKind::read_reply:
    case RecordKind::read_refused:
      if (!receive_reply(queue, *record)) {
        return lose("RDMA: the peer answers a read that was not asked of it");
      }
      ack.applied_ps = shared_.loop->clock().time_since_epoch().count();
      break;
  }
  queue.acks.push_back(ack);
}

// Puts the pieces in place, or looks at those that are.
AckStatus Link::apply(LaneQueue& queue, const Record& record) {
  const RecordHeader& header = record.header;
  if (queue.refusing && queue.refused == header.operation) return AckStatus::refused;
  const auto refuse = [&](AckStatus status) {
    queue.refusing = true;
    queue.refused = header.operation;
    return status;
  };
  std::vector<std::span<std::byte>> places;
  places.reserve(record.pieces.size());
  for (const EpochFragment& piece : record.pieces) {
    const Fragment& f = piece.fragment;
    std::byte* at = memory_.place(piece);
    if (at == nullptr) {
      // Late, or no peer of ours: the one is told so, the other is not spoken with any more.
      if (memory_.local->find(f.region, piece.epoch, 0, 0) != nullptr) {
        lose(fmt::format("RDMA: the peer wrote {} bytes at {} of region {}, which has fewer",
                         f.length, f.offset, f.region.value()));
      }
      return refuse(AckStatus::refused);
    }
    places.emplace_back(at, static_cast<std::size_t>(f.length));
  }
  const bool packed = header.kind == RecordKind::packed;
  if (header.has_checksum) {
    std::uint32_t sum = 0;
    if (packed) {
      sum = checksum(record.payload);
    } else {
      for (const auto& place : places) sum = checksum(place, sum);
    }
    if (sum != header.checksum) {
      ++counters_.checksum_errors;
      return refuse(AckStatus::checksum);
    }
  }
  if (packed) {
    std::span<const std::byte> left = record.payload;
    for (const auto& place : places) {
      std::copy_n(left.begin(), place.size(), place.begin());
      left = left.subspan(place.size());
    }
    counters_.bytes_in += record.payload.size();
  }
  return AckStatus::applied;
}

void Link::receive_request(LaneQueue& queue, Record&& record) {
  if (static_cast<std::uint64_t>(record.header.piece_bytes) > record_bytes_) {
    return lose(
        fmt::format("RDMA: the peer asks for {} bytes in one record; at most {} were agreed",
                    record.header.piece_bytes, record_bytes_));
  }
  if (answers_ >= most_requests(shared_.options.receives / 2)) {
    return lose(fmt::format("RDMA: the peer asks for more than {} answers at a time", answers_));
  }
  ++answers_;
  auto task = std::make_unique<Task>();
  task->number = record.header.operation;
  task->part = record.header.part;
  task->wanted = std::move(record.pieces);
  queue.answers.push_back(std::move(task));
}

// False: nobody asked.
bool Link::receive_reply(LaneQueue& queue, const Record& record) {
  const RecordHeader& header = record.header;
  const auto found = reads_.find(header.operation);
  if (found == reads_.end()) return false;
  Task& task = *found->second;
  if (&queue_at(task.operation->lane, task.operation->queue) != &queue ||
      header.part >= task.next_part || task.replies[header.part]) {
    return false;
  }
  const Part& part = task.parts[header.part];
  const bool refused = header.kind == RecordKind::read_refused;
  if (!refused && header.piece_bytes != part.bytes) return false;
  task.replies[header.part] = true;
  --requests_;
  --task.waiting_replies;
  task.applied = std::max(task.applied, shared_.loop->clock());
  if (!refused && header.has_checksum && checksum(record.payload) != header.checksum) {
    ++counters_.checksum_errors;
    task.status = TransferStatus::failed;
    return true;
  }
  if (refused) {
    task.status = TransferStatus::failed;
    return true;
  }
  std::span<const std::byte> left = record.payload;
  for (const Piece& piece : std::span(task.pieces).subspan(part.first, part.pieces)) {
    const auto length = static_cast<std::size_t>(piece.named.fragment.length);
    std::copy_n(left.begin(), length, memory_.local->pool().data() + piece.local);
    left = left.subspan(length);
  }
  counters_.bytes_in += record.payload.size();
  return true;
}

void Link::receive_acks(LaneQueue&, std::span<const std::byte> bytes) {
  const auto acks = parse_acks(bytes);
  if (!acks)
    return lose(fmt::format("RDMA: the peer sent {} bytes that are no acks", bytes.size()));
  for (const SlotAck& ack : *acks) {
    const auto found = slots_.find(ack.slot);
    if (found == slots_.end()) {
      return lose(fmt::format("RDMA: the peer acknowledges slot {}, which is empty", ack.slot));
    }
    auto [queue, task] = found->second;
    slots_.erase(found);
    ring_.give_back(ack.slot * kSlotUnit);
    ++credits_;
    --task->waiting_acks;
    if (task->operation == nullptr) continue;
    if (ack.status == AckStatus::checksum) ++counters_.checksum_errors;
    if (ack.status != AckStatus::applied && task->status == TransferStatus::ok) {
      task->status = TransferStatus::failed;
    }
    if (task->operation->op != TransferOp::read) {
      task->applied = std::max(task->applied, TimePoint(Duration(ack.applied_ps)));
    }
  }
}

}  // namespace kvlane::live
