#pragma once
// What a cost model asks of a table of measured kernels (grid_table.h).

#include <array>
#include <cstdint>
#include <optional>

#include "sim/gpu/gpu_spec.h"
#include "sim/port/compute.h"

namespace kvlane {

// A kernel's shape on one tensor-parallel rank. Between measured `sizes` there is something to
// interpolate; `exact` must have been measured as it is. Places that a class does not name are 1 in
// `sizes` and 0 in `exact`.
//   gemm               sizes m, n, k                  exact 16 or 8, bits a weight
//   prefill_attention  sizes tokens                   exact query heads, kv heads, head width
//   prefix_attention   sizes new and cached tokens    exact query heads, kv heads, head width
//   decode_attention   sizes sequences, kv tokens     exact query heads a kv head, kv heads, bits
//   of
//                      (mean of a sequence)                 a key
//   collective         sizes bytes                    exact ranks
// Other classes have no table.
struct KernelShape {
  KernelClass kernel = KernelClass::gemm;
  std::array<std::int64_t, 3> sizes{1, 1, 1};
  std::array<std::int64_t, 3> exact{0, 0, 0};
};

class KernelTable {
 public:
  virtual ~KernelTable() = default;
  // Measured time / formula; none where the shape lies outside the measured grid.
  virtual std::optional<double> factor(const KernelShape& shape) const = 0;
  // Likewise of a whole piece of work, where it was measured as one.
  virtual std::optional<double> work_factor(const Work&) const { return {}; }
  virtual bool times_whole_work() const { return false; }
};

}  // namespace kvlane
