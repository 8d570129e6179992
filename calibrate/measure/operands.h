#pragma once
// Memory of the calls that a device measures, taken once and used by one call after another: values
// to read, room for results, lists of numbers. The same on every device; whose memory it is, is the
// owner's matter.

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <random>
#include <vector>

#include "kernels/common/kv_cache.h"

namespace kvlane::calibrate {

// The operands of a shape are beyond the memory taken for them.
class NoRoom : public std::exception {
 public:
  const char* what() const noexcept override { return "operands beyond the memory"; }
};

// A block of memory of another, handed out in pieces at multiples of 256 bytes.
class Arena {
 public:
  Arena(void* memory, std::size_t bytes) : memory_(static_cast<std::byte*>(memory)), size_(bytes) {}
  void reset() { used_ = 0; }
  std::byte* take(std::size_t bytes);  // NoRoom
  std::byte* memory() const { return memory_; }
  std::size_t size() const { return size_; }
  std::size_t used() const { return used_; }

 private:
  std::byte* memory_;
  std::size_t size_, used_ = 0;
};

class Operands {
 public:
  // From this program's memory into that of the arenas; done, or queued before the next call, when
  // it returns.
  using Write = std::function<void(void* to, const void* from, std::size_t bytes)>;

  // Fills `values` with values of [0.5, 2) of both signs, as bf16 and as fp32.
  Operands(Arena values, Arena results, Write write);
  void reset();
  // Further calls read the same values as those before; their results stay.
  void reuse_values() { values_.reset(); }

  // Each throws NoRoom. Values, never written.
  template <class T = std::uint16_t>
  const T* in(double count) {
    return reinterpret_cast<const T*>(values_.take(bytes_of<T>(count)));
  }
  // Room for results.
  template <class T = std::uint16_t>
  T* out(double count) {
    return reinterpret_cast<T*>(results_.take(bytes_of<T>(count)));
  }
  // A copy of the list where the device reads it.
  template <class T>
  const T* list(const std::vector<T>& numbers) {
    const std::size_t bytes = numbers.size() * sizeof(T);
    std::byte* to = results_.take(bytes);
    write_(to, numbers.data(), bytes);
    return reinterpret_cast<const T*>(to);
  }

  // What the call at hand works on.
  const Arena& values() const { return values_; }
  const Arena& results() const { return results_; }

  std::mt19937_64 random{2607};

 private:
  template <class T>
  static std::size_t bytes_of(double count) {
    return static_cast<std::size_t>(count) * sizeof(T);
  }

  Arena values_, results_;
  Write write_;
};

inline constexpr int kBlockTokens = 16;
// Blocks of 16 tokens in a random order, as an engine leaves them; the list of blocks in `lists`.
// `writable`: in the room for results.
kernels::KvCache paged_cache(Operands& rows, Operands& lists, int sequences, int tokens,
                             int kv_heads, int width, bool writable = false);

// [rows][selected] tokens: runs of neighbours at random places, ascending.
std::vector<std::int32_t> selection(Operands& operands, int rows, int tokens, int selected,
                                    int run);

}  // namespace kvlane::calibrate
