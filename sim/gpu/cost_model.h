#pragma once
// How long a piece of Work takes alone: roofline with the published efficiency curves of
// sim/gpu/gpu_spec.h. A later table replaces the formula of a kernel inside its measured grid
// (KernelTable), the formula stays outside.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/gpu/gpu_spec.h"
#include "sim/kv/model_spec.h"
#include "sim/port/compute.h"

namespace kvlane {

// Which kernel a time belongs to; the words of the hardware file and of calibration samples.
enum class KernelClass : std::uint8_t {
  gemm,
  prefill_attention,
  prefix_attention,
  decode_attention,
  selection,
  quantise,
  small,
  collective
};

// A measured table that overrides the formula where it covers the shape.
class KernelTable {
 public:
  virtual ~KernelTable() = default;
  // Seconds, or a negative number where the shape lies outside the measured grid.
  virtual double seconds(KernelClass kernel, std::int64_t m, std::int64_t n,
                         std::int64_t k) const = 0;
};

class CostModel {
 public:
  // `tp`: tensor-parallel degree; divides heads, weights and KV, and pays two all-reduces a layer.
  // `windows_as_full` as in kv_layout.h. `selector_channels`: bytes of selection metadata a (row,
  // kv head) that `select` reads.
  CostModel(GpuSpec gpu, ModelSpec model, int tp, bool windows_as_full,
            const KernelTable* table = nullptr);

  Duration duration(const Work& work) const;
  const GpuSpec& gpu() const { return gpu_; }
  const ModelSpec& model() const { return model_; }
  int tp() const { return tp_; }

  // The building blocks, for tests and `kvlane show hardware`. Seconds.
  double gemm(std::int64_t m, std::int64_t n, std::int64_t k) const;
  double prefill_attention(std::int64_t batch, std::int64_t heads, std::int64_t head_dim,
                           std::int64_t tokens) const;
  double prefix_attention(std::int64_t heads, std::int64_t head_dim, std::int64_t chunk,
                          std::int64_t cached) const;
  double decode_attention(double kv_bytes) const;
  double all_reduce(double bytes) const;

 private:
  GpuSpec gpu_;
  ModelSpec model_;
  int tp_ = 1;
  bool windows_as_full_ = false;
  const KernelTable* table_ = nullptr;
};

}  // namespace kvlane
