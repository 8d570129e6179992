#pragma once
// Memory of the calls that the CPU device measures, taken once and used by one call after another.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "calibrate/measure/device.h"
#include "kernels/common/cpu.h"
#include "kernels/common/kv_cache.h"

namespace kvlane::calibrate {

// A block of memory that hands out pieces; take() gives null when it is used up.
class Arena {
 public:
  Arena(std::size_t bytes, std::uint64_t seed);  // 0: left as it is
  void reset() { used_ = 0; }
  void* take(std::size_t bytes);
  std::size_t size() const { return bytes_; }

 private:
  struct Free {
    void operator()(void* memory) const;
  };
  std::size_t bytes_ = 0, used_ = 0;
  std::unique_ptr<std::byte, Free> memory_;
};

struct CpuOperands {
  kernels::Cpu& cpu;
  // Values in [0.5, 2) of both signs, as bf16 and as fp32; never written.
  Arena input;
  Arena output;
  std::mt19937_64 random{2607};

  template <class T = void>
  const T* in(double count) {
    return static_cast<const T*>(input.take(static_cast<std::size_t>(count) * bytes_of<T>()));
  }
  template <class T = void>
  T* out(double count) {
    return static_cast<T*>(output.take(static_cast<std::size_t>(count) * bytes_of<T>()));
  }

 private:
  template <class T>
  static constexpr std::size_t bytes_of() {
    if constexpr (std::is_void_v<T>) {
      return 2;  // a bf16 value
    } else {
      return sizeof(T);
    }
  }
};

// Sizes of a sample by name.
inline int size_in(const Sample& shape, const char* name) {
  return static_cast<int>(dimension(shape, name));
}

// Blocks of 16 tokens in a random order, as an engine leaves them.
struct PagedCache {
  kernels::KvCache kv;
  std::vector<std::int32_t> table, tokens;
};
inline constexpr int kBlockTokens = 16;
// kv.rows is null where it does not fit.
std::shared_ptr<PagedCache> paged_cache(CpuOperands& operands, int sequences, int tokens,
                                        int kv_heads, int width, bool writable = false);

// [sequences][kv_heads][selected] tokens: runs of neighbours at random places, ascending.
std::vector<std::int32_t> selection(CpuOperands& operands, int rows, int tokens, int selected,
                                    int run);

// Each an empty call for kernels of others, and where the operands do not fit.
Call attention_call(const Sample& shape, CpuOperands& operands);
Call selection_call(const Sample& shape, CpuOperands& operands);
Call memory_call(const Sample& shape, CpuOperands& operands);  // copies, reads, gathers
Call hack_call(const Sample& shape, CpuOperands& operands);
Call layer_call(const Sample& shape, CpuOperands& operands);  // GEMM too

}  // namespace kvlane::calibrate
