#pragma once
// How long a piece of Work takes alone: roofline with the published efficiency curves of
// sim/gpu/gpu_spec.h. A table corrects the formula of a kernel inside its measured grid
// (kernel_table.h), the formula stands outside.

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "sim/gpu/gpu_spec.h"
#include "sim/gpu/kernel_table.h"
#include "sim/gpu/kernel_usage.h"
#include "sim/kv/model_spec.h"
#include "sim/port/compute.h"

namespace kvlane {

// What the times of each kernel class are multiplied by: an error that is assumed, to see what
// rests on it (sim/run/uncertainty.h). `copy` and the host's gathers are rates of the GpuSpec
// instead.
using KernelFactors = std::array<double, kKernelClasses>;
inline constexpr KernelFactors kNoFactors = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

// One rank's part of an attention kernel over one sequence.
struct AttentionShape {
  std::int64_t heads = 0;     // query heads of the rank
  std::int64_t kv_heads = 0;  // kv heads of the rank
  std::int64_t width = 0;     // mean of the key's and the value's width
  std::int64_t window = 0;    // 0: none
};

// Decode attention of one rank and layer.
struct DecodeShape {
  double sequences = 0;
  double kv_tokens = 0;  // mean of a sequence
  double kv_heads = 0;
  double group = 1;        // query heads a kv head
  double kv_bytes = 0;     // that the kernel reads in all
  bool fp8 = false;        // of 8-bit KV
  std::int64_t width = 0;  // of a head; 0: a shape that no table has
};

class CostModel {
 public:
  // `tp`: tensor-parallel degree; divides heads, weights and KV, and pays two all-reduces a layer.
  // `windows_as_full` as in kv_layout.h. `table` outlives this.
  CostModel(GpuSpec gpu, ModelSpec model, int tp, bool windows_as_full,
            const KernelTable* table = nullptr, const KernelFactors& factors = kNoFactors);

  // Throws std::logic_error for shapes that no model has (negative sizes, unknown layer).
  Duration duration(const Work& work) const;
  // Likewise without what was measured of this piece of work as a whole: what policies are told,
  // here and in a live run, whose roles have not measured it.
  Duration expected(const Work& work) const;
  bool times_whole_work() const { return table_ != nullptr && table_->times_whole_work(); }
  const GpuSpec& gpu() const { return gpu_; }
  const ModelSpec& model() const { return model_; }
  int tp() const { return tp_; }
  bool windows_as_full() const { return windows_as_full_; }
  bool fp8_gemm() const { return model_.weight_bytes == 1 && gpu_.peak_fp8_flops > 0; }
  // What it was asked for so far. A model belongs to one run and one thread.
  KernelUsage& usage() const { return usage_; }

  // The building blocks, without the factors. Seconds.
  double gemm(std::int64_t m, std::int64_t n, std::int64_t k) const;
  // `tokens` new ones, none cached.
  double prefill_attention(const AttentionShape& shape, std::int64_t tokens) const;
  // `chunk` new tokens after `cached` ones.
  double prefix_attention(const AttentionShape& shape, std::int64_t chunk,
                          std::int64_t cached) const;
  double decode_attention(const DecodeShape& shape) const;
  // One chunk of a prompt and decodes in one launch, where mixed_em is known.
  double mixed_attention(const AttentionShape& shape, std::int64_t chunk, std::int64_t cached,
                         const DecodeShape& decodes) const;
  double all_reduce(double bytes) const;

 private:
  const LayerSpec& layer(const Work& work) const;
  AttentionShape shape_of(const LayerSpec& layer) const;
  double seconds(const Work& work) const;
  // Smooth maximum of compute and memory time without the launch.
  double roofline(double flops, double bytes) const;
  double prefill_formula(const AttentionShape& shape, std::int64_t tokens) const;
  double decode_formula(const DecodeShape& shape) const;
  double decode_floor(const DecodeShape& shape) const;
  double decode_compute(const DecodeShape& shape) const;
  double matrix(std::int64_t m, double parameters, std::int64_t k) const;
  double moe(const LayerSpec& layer, std::int64_t m) const;
  double elementwise(double bytes) const;
  // Seconds of a kernel that the hardware file has as measured (GpuSpec::costs).
  bool costs(std::initializer_list<const char*> kernels) const;
  double costed(const char* kernel, const std::vector<std::int64_t>& shape) const;
  // What stands beside the GEMMs of m tokens, before and after attention.
  double others(const LayerSpec& layer, std::int64_t m, double gemm_seconds, bool before,
                bool after) const;
  double costed_select(const LayerSpec& layer, const Work& work) const;
  double qkv(const LayerSpec& layer, std::int64_t m) const;
  double output_and_ffn(const LayerSpec& layer, std::int64_t m) const;
  double attention(const LayerSpec& layer, std::int64_t chunk, std::int64_t cached,
                   std::int64_t prompts) const;
  double prefill_layer(const Work& work) const;
  double decode_rows(const Work& work) const;
  double head(std::int64_t batch) const;
  double select(const Work& work) const;
  double build_metadata(const Work& work) const;
  double convert(const Work& work) const;
  // The formula's seconds as the table corrects them, where there is one that covers the shape.
  double corrected(const KernelShape& shape, double formula) const;
  double gemm_formula(std::int64_t m, std::int64_t n, std::int64_t k) const;
  double prefix_formula(const AttentionShape& shape, std::int64_t chunk, std::int64_t cached) const;
  // Counts a time of the class towards the run, with its factor.
  double counted(KernelClass kernel, double seconds) const;

  GpuSpec gpu_;
  ModelSpec model_;
  int tp_ = 1;
  bool windows_as_full_ = false;
  const KernelTable* table_ = nullptr;
  KernelFactors factors_;
  mutable KernelUsage usage_;
};

}  // namespace kvlane
