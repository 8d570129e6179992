#include "calibrate/live/memory/pool.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "sim/base/check.h"

namespace kvlane::live {
namespace {

constexpr std::size_t kHuge = std::size_t{2} << 20U;
constexpr std::int64_t kAlign = 64;

}  // namespace

Pool::Pool(std::size_t bytes)
    : size_((std::max<std::size_t>(bytes, 1) + kHuge - 1) / kHuge * kHuge) {
  fd_ = ::memfd_create("kvlane", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  const char* what = "memfd_create";
  if (fd_ >= 0) {
    what = "ftruncate";
    if (::ftruncate(fd_, static_cast<off_t>(size_)) == 0) {
      // A peer that maps it need not fear that it shrinks under its hands.
      what = "F_ADD_SEALS";
      if (::fcntl(fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) {
        what = "mmap";
        void* mapped = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
        if (mapped != MAP_FAILED) {
          ::madvise(mapped, size_, MADV_HUGEPAGE);
          data_ = static_cast<std::byte*>(mapped);
          return;
        }
      }
    }
  }
  const int error = errno;
  if (fd_ >= 0) ::close(fd_);
  throw std::system_error(error, std::generic_category(),
                          std::string(what) + " of " + std::to_string(size_) + " bytes");
}

Pool::~Pool() {
  ::munmap(data_, size_);
  ::close(fd_);
}

// True when some region overlaps; `next` is then the end of one that does.
bool RegionTable::taken(std::int64_t offset, std::int64_t length, std::int64_t& next) const {
  const auto overlaps = [&](const Region& r) {
    if (r.offset >= offset + length || offset >= r.offset + r.length) return false;
    next = r.offset + r.length;
    return true;
  };
  return std::any_of(draining_.begin(), draining_.end(), overlaps) ||
         std::any_of(regions_.begin(), regions_.end(),
                     [&](const auto& entry) { return overlaps(entry.second); });
}

bool RegionTable::create(RegionId region, std::int64_t bytes) {
  KVLANE_CHECK(bytes >= 0 && !regions_.contains(region), "region {} of {} bytes", region.value(),
               bytes);
  const std::int64_t length = std::max(kAlign, (bytes + kAlign - 1) / kAlign * kAlign);
  std::int64_t offset = 0;
  while (offset + length <= static_cast<std::int64_t>(pool_.size())) {
    std::int64_t next = 0;
    if (!taken(offset, length, next)) {
      Region made;
      made.offset = offset;
      made.length = length;
      regions_.emplace(region, std::move(made));
      return true;
    }
    offset = next;
  }
  return false;
}

RegionPlace RegionTable::expose(RegionId region, EndpointId peer) {
  Region& r = regions_.at(region);
  KVLANE_CHECK(r.state == RegionState::owned, "region {} is exposed already", region.value());
  r.state = RegionState::exposed;
  r.epoch = ++epoch_;
  r.peer = peer;
  return {region, r.epoch, r.offset, r.length};
}

bool RegionTable::open_to(RegionId region, EndpointId peer) const {
  const auto found = regions_.find(region);
  return found == regions_.end() || !found->second.peer.is_valid() || !peer.is_valid() ||
         found->second.peer == peer;
}

void RegionTable::withdraw(RegionId region, std::vector<std::uint64_t> writers) {
  const auto found = regions_.find(region);
  KVLANE_CHECK(found != regions_.end(), "no region {}", region.value());
  if (!writers.empty()) {
    Region& r = draining_.emplace_back(std::move(found->second));
    r.state = RegionState::draining;
    r.writers = std::move(writers);
  }
  regions_.erase(found);
}

void RegionTable::ended(std::uint64_t writer) {
  for (Region& r : draining_) std::erase(r.writers, writer);
  std::erase_if(draining_, [](const Region& r) { return r.writers.empty(); });
}

std::byte* RegionTable::find(RegionId region, std::uint32_t epoch, std::int64_t offset,
                             std::int64_t length) {
  const auto found = regions_.find(region);
  if (found == regions_.end()) return nullptr;
  const Region& r = found->second;
  if (r.state != RegionState::exposed || r.epoch != epoch || offset < 0 || length < 0 ||
      offset > r.length || length > r.length - offset) {
    return nullptr;
  }
  return pool_.data() + r.offset + offset;
}

bool RegionTable::is_exposed(RegionId region, std::uint32_t epoch) const {
  const auto found = regions_.find(region);
  return found != regions_.end() && found->second.state == RegionState::exposed &&
         found->second.epoch == epoch;
}

std::byte* RegionTable::own(RegionId region, std::int64_t offset, std::int64_t length) {
  const auto found = regions_.find(region);
  KVLANE_CHECK(found != regions_.end() && offset >= 0 && length >= 0 &&
                   offset <= found->second.length && length <= found->second.length - offset,
               "bytes {} + {} of region {}", offset, length, region.value());
  return pool_.data() + found->second.offset + offset;
}

std::span<std::byte> RegionTable::bytes_of(RegionId region) {
  const Region& r = regions_.at(region);
  return {pool_.data() + r.offset, static_cast<std::size_t>(r.length)};
}

std::int64_t RegionTable::draining_bytes() const {
  std::int64_t sum = 0;
  for (const Region& r : draining_) sum += r.length;
  return sum;
}

std::int64_t RegionTable::free_bytes() const {
  auto left = static_cast<std::int64_t>(pool_.size()) - draining_bytes();
  for (const auto& [id, r] : regions_) left -= r.length;
  return left;
}

std::uint32_t RegionTable::epoch_of(RegionId region) const { return regions_.at(region).epoch; }

}  // namespace kvlane::live
