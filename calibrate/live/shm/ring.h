#pragma once
// A stream of bytes through memory that two processes share: one writer, one reader. Head and tail
// count bytes since the start; what the other side writes there is believed only as far as it makes
// sense.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace kvlane::live {

struct RingHead {
  alignas(64) std::atomic<std::uint64_t> written{0};  // by the writer
  alignas(64) std::atomic<std::uint64_t> taken{0};    // by the reader
  std::atomic<std::uint32_t> writer_waits{0};         // for room
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

inline constexpr std::size_t kRingBytes = std::size_t{256} << 10U;
inline constexpr std::size_t kRingStride = kRingBytes + 4096;  // head and data

class RingWriter {
 public:
  explicit RingWriter(std::byte* at) : head_(reinterpret_cast<RingHead*>(at)), data_(at + 4096) {}

  // How many of the bytes went in; fewer than all: the reader will say when there is room.
  // SIZE_MAX: the reader's count makes no sense.
  std::size_t put(std::span<const std::byte> bytes) {
    std::size_t done = 0;
    for (int look = 0; look < 2; ++look) {
      const std::uint64_t taken = head_->taken.load(std::memory_order_acquire);
      if (written_ - taken > kRingBytes) return SIZE_MAX;
      const std::size_t room = kRingBytes - static_cast<std::size_t>(written_ - taken);
      const std::size_t part = room < bytes.size() - done ? room : bytes.size() - done;
      copy_in(bytes.subspan(done, part));
      done += part;
      head_->written.store(written_, std::memory_order_release);
      if (done == bytes.size()) break;
      // The reader may have taken the last of it just now: say that we wait, then look once more.
      head_->writer_waits.store(1, std::memory_order_seq_cst);
    }
    return done;
  }

 private:
  void copy_in(std::span<const std::byte> bytes) {
    const std::size_t at = written_ % kRingBytes;
    const std::size_t first = kRingBytes - at < bytes.size() ? kRingBytes - at : bytes.size();
    if (first > 0) std::memcpy(data_ + at, bytes.data(), first);
    if (first < bytes.size()) std::memcpy(data_, bytes.data() + first, bytes.size() - first);
    written_ += bytes.size();
  }

  RingHead* head_;
  std::byte* data_;
  std::uint64_t written_ = 0;
};

class RingReader {
 public:
  explicit RingReader(std::byte* at) : head_(reinterpret_cast<RingHead*>(at)), data_(at + 4096) {}

  // How many bytes there are; SIZE_MAX: the writer's count makes no sense.
  std::size_t there() const {
    const std::uint64_t written = head_->written.load(std::memory_order_acquire);
    return written - taken_ > kRingBytes ? SIZE_MAX : static_cast<std::size_t>(written - taken_);
  }
  // The first of them, up to where the ring ends.
  std::span<const std::byte> front(std::size_t most) const {
    const std::size_t at = taken_ % kRingBytes;
    return {data_ + at, kRingBytes - at < most ? kRingBytes - at : most};
  }
  // True when the writer waits for this room.
  bool take(std::size_t bytes) {
    taken_ += bytes;
    head_->taken.store(taken_, std::memory_order_seq_cst);
    return head_->writer_waits.load(std::memory_order_seq_cst) != 0 &&
           head_->writer_waits.exchange(0) != 0;
  }

 private:
  RingHead* head_;
  std::byte* data_;
  std::uint64_t taken_ = 0;
};

}  // namespace kvlane::live
