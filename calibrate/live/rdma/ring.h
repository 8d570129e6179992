#pragma once
// Room in the peer's inbox, handed out by the sender: pieces in ring order, freed in any order.

#include <cstdint>
#include <deque>
#include <optional>

namespace kvlane::live {

class Ring {
 public:
  explicit Ring(std::uint64_t bytes) : bytes_(bytes) {}

  // An offset of `bytes` in one piece, rounded up to 64. Nothing: no room now, or `share` (of 4) of
  // the ring is taken already.
  std::optional<std::uint64_t> take(std::uint64_t bytes, unsigned share = 4) {
    bytes = bytes < 64 ? 64 : (bytes + 63) / 64 * 64;
    std::uint64_t skipped = 0;
    std::uint64_t at = head_;
    if (at + bytes > bytes_) {  // not across the end
      skipped = bytes_ - at;
      at = 0;
    }
    if (used_ + skipped + bytes > bytes_ / 4 * share) return std::nullopt;
    if (skipped > 0) pieces_.push_back({head_, skipped, true});
    pieces_.push_back({at, bytes, false});
    used_ += skipped + bytes;
    head_ = at + bytes == bytes_ ? 0 : at + bytes;
    return at;
  }

  // False: no such piece is taken.
  bool give_back(std::uint64_t offset) {
    bool found = false;
    for (Piece& piece : pieces_) {
      if (piece.offset != offset || piece.free) continue;
      piece.free = found = true;
      break;
    }
    while (!pieces_.empty() && pieces_.front().free) {
      used_ -= pieces_.front().bytes;
      pieces_.pop_front();
    }
    if (pieces_.empty()) head_ = 0;
    return found;
  }
  std::uint64_t used() const { return used_; }

 private:
  struct Piece {
    std::uint64_t offset = 0, bytes = 0;
    bool free = false;
  };
  std::uint64_t bytes_, head_ = 0, used_ = 0;
  std::deque<Piece> pieces_;
};

}  // namespace kvlane::live
