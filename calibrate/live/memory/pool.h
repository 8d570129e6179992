#pragma once
// The memory of one endpoint that peers may read and write: one mapping for the life of the
// process, registered once (with a NIC, or shared with a peer as a sealed memfd), handed out in
// regions.
//
// A region's life: owned -> exposed(epoch) -> draining -> free. Peers name (region, epoch, offset,
// length); every access that came from the network goes through find(), which refuses what is
// outside, of another epoch or not exposed. A region that is withdrawn while writes may still be
// under way drains: its bytes are handed out again only when the last connection that could write
// them says that it has ended.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "sim/base/strong_id.h"
#include "sim/port/transport.h"

namespace kvlane::live {

// An anonymous memfd of fixed, sealed size, mapped; 2 MiB pages where the kernel gives them.
class Pool {
 public:
  // Throws std::system_error.
  explicit Pool(std::size_t bytes);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  int fd() const { return fd_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  int fd_ = -1;
};

enum class RegionState : std::uint8_t { owned, exposed, draining };

// Where a region lies in its owner's pool: what a peer is told.
struct RegionPlace {
  RegionId region;
  std::uint32_t epoch = 0;
  std::int64_t offset = 0;  // in the pool
  std::int64_t length = 0;
};

class RegionTable {
 public:
  explicit RegionTable(Pool& pool) : pool_(pool) {}

  // Takes `bytes` of the pool, a multiple of 64 in. False: no room now (draining counts as taken).
  bool create(RegionId region, std::int64_t bytes);
  // A peer may use it (without one, any), under a number that this table has never used before.
  RegionPlace expose(RegionId region, EndpointId peer = {});
  bool open_to(RegionId region, EndpointId peer) const;
  // Peers may not any more. `writers`: connections that may still write; 0 frees at once. The
  // region's number can be created anew straight away, elsewhere.
  void withdraw(RegionId region, std::vector<std::uint64_t> writers);
  // The connection has ended: nothing of it can land any more.
  void ended(std::uint64_t writer);

  // Null when the region is not exposed under this epoch or the piece is not inside.
  std::byte* find(RegionId region, std::uint32_t epoch, std::int64_t offset, std::int64_t length);
  bool is_exposed(RegionId region, std::uint32_t epoch) const;
  // Our own access, in any state but free: a broken invariant when outside.
  std::byte* own(RegionId region, std::int64_t offset, std::int64_t length);
  std::span<std::byte> bytes_of(RegionId region);

  std::size_t regions() const { return regions_.size(); }
  std::size_t draining() const { return draining_.size(); }
  std::int64_t draining_bytes() const;
  std::int64_t free_bytes() const;
  std::uint32_t epoch_of(RegionId region) const;
  const Pool& pool() const { return pool_; }

 private:
  struct Region {
    RegionState state = RegionState::owned;
    std::uint32_t epoch = 0;
    EndpointId peer;
    std::int64_t offset = 0, length = 0;
    std::vector<std::uint64_t> writers;
  };
  bool taken(std::int64_t offset, std::int64_t length, std::int64_t& next) const;

  Pool& pool_;
  std::map<RegionId, Region> regions_;
  std::vector<Region> draining_;
  std::uint32_t epoch_ = 0;
};

// What peers have told of their regions, by (peer's) region.
class RemoteRegions {
 public:
  void set(const RegionPlace& place) { places_[place.region] = place; }
  void clear() { places_.clear(); }
  // Null: never told.
  const RegionPlace* find(RegionId region) const {
    const auto found = places_.find(region);
    return found == places_.end() ? nullptr : &found->second;
  }

 private:
  std::map<RegionId, RegionPlace> places_;
};

}  // namespace kvlane::live
