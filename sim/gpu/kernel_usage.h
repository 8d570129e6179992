#pragma once
// What a run has asked of a cost model: which kernel classes and constants its times rest on, how
// far the sizes went that a formula answered, and which shapes a measured table answered.

#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "sim/gpu/gpu_spec.h"
#include "sim/gpu/kernel_table.h"

namespace kvlane {

class KernelUsage {
 public:
  // A time above zero of this class went into the run.
  void mark(KernelClass kernel) { used_[index(kernel)] = true; }
  bool used(KernelClass kernel) const { return used_[index(kernel)]; }

  // Constants that only some shapes of a class rest on.
  bool decode_16_bit = false, decode_8_bit = false;  // KV
  bool decode_unsplit = false;                       // decode_walk
  bool unpacks = false;                              // hack_unpack_rate
  bool experts = false;                              // gemm_t0, whatever the weights' width
  bool gathers = false;                              // host_gather_bandwidth
  std::set<std::string> costs;                       // kernels of GpuSpec::costs

  // A shape that the formula answered, in the order of domain_dimensions(kernel).
  void sizes(KernelClass kernel, std::initializer_list<double> values);

  // A shape that was looked up in a table.
  void look_up(const KernelShape& shape, bool inside);

  struct Outside {
    KernelClass kernel = KernelClass::gemm;
    DomainRange range;
    double value = 0;  // the size farthest outside, by ratio; of equally far ones the small one
  };
  // The dimensions in which the run has left the domain of the GPU's fits.
  std::vector<Outside> outside(const GpuSpec& gpu) const;

  struct TableUse {
    std::int64_t inside = 0, outside = 0;  // distinct shapes
    std::array<std::int64_t, 3> first_outside{};
  };
  // Of a class that was looked up; inside + outside is 0 where it was not.
  const TableUse& table(KernelClass kernel) const { return tables_[index(kernel)]; }

  // True where a time of the run depends on the constant `key` of the GPU's file. `fp8_gemm`: its
  // matrices have 8-bit weights; `tp`: the tensor-parallel degree.
  bool rests_on(const std::string& key, bool fp8_gemm, int tp) const;

  // Adds classes, sizes and look-ups of another model of the same GPU.
  void merge(const KernelUsage& other);

 private:
  struct Extent {
    double low = 0, high = 0;
    bool known = false;
  };
  using Shape = std::tuple<KernelClass, std::array<std::int64_t, 3>, std::array<std::int64_t, 3>>;
  static std::size_t index(KernelClass kernel) { return static_cast<std::size_t>(kernel); }

  std::array<bool, kKernelClasses> used_{};
  std::array<std::array<Extent, 3>, kKernelClasses> extents_{};
  std::array<TableUse, kKernelClasses> tables_{};
  std::map<Shape, bool> looked_up_;  // true: inside
};

}  // namespace kvlane
