#pragma once
// Memory of this process that is there before anything is timed.

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "calibrate/measure/operands.h"

namespace kvlane::calibrate {

// Whole pages, touched: no page fault is ever measured. Large ones where the system has them, as a
// pool of KV would ask for.
class HostMemory {
 public:
  explicit HostMemory(std::size_t bytes) : bytes_((bytes + kPage - 1) / kPage * kPage) {
    void* memory = std::aligned_alloc(kPage, bytes_);
    if (memory == nullptr) throw std::bad_alloc();
    memory_.reset(static_cast<std::byte*>(memory));
    madvise(memory, bytes_, MADV_HUGEPAGE);
    std::memset(memory, 0, bytes_);
  }
  std::byte* data() const { return memory_.get(); }
  std::size_t bytes() const { return bytes_; }
  Arena arena() const { return {data(), bytes_}; }

 private:
  static constexpr std::size_t kPage = std::size_t{2} << 20;
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::size_t bytes_;
  std::unique_ptr<std::byte, Free> memory_;
};

}  // namespace kvlane::calibrate
