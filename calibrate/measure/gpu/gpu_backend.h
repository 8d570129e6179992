#pragma once
// The kernels on a GPU, queued in one stream; matrix products are cuBLAS's. Workspaces are taken
// from the room for results.

#include <memory>

#include "calibrate/measure/backend.h"
#include "kernels/common/cuda_stream.h"
#include "kernels/gemm/cuda.h"

namespace kvlane::calibrate {

class GpuBackend final : public Backend {
 public:
  // `capability`: 10 * major + minor, as DeviceInfo has it.
  GpuBackend(Operands& operands, kernels::cuda::Stream stream, int capability)
      : Backend(operands), stream_(stream), has_sm80_(capability >= 80) {}

  Call prefill_attention(const kernels::PrefillAttention& args, int new_tokens,
                         int kv_tokens) override;
  Call decode_attention(const kernels::DecodeAttention& args, int kv_tokens) override;
  Call sparse_attention(const kernels::SparseAttention& args) override;
  Call hata_encode(const kernels::HataEncode& args) override;
  Call hata_score(const kernels::HataScore& args) override;
  Call infinigen_project(const kernels::InfinigenProject& args) override;
  Call infinigen_score(const kernels::InfinigenScore& args) override;
  Call topk(const kernels::TopK& args) override;
  Call index_split(const kernels::IndexSplit& args) override;
  Call hack_append(const kernels::HackAppend& args, int new_tokens) override;
  Call hack_attention(const kernels::HackAttention& args, int kv_tokens) override;
  Call hack_dequantise_attention(const kernels::HackAttention& args, int kv_tokens) override;
  Call rms_norm(const kernels::RmsNorm& args) override;
  Call rope(const kernels::Rope& args) override;
  Call gated_unit(const kernels::GatedUnit& args) override;
  Call embedding(const kernels::Embedding& args) override;
  Call add(const kernels::Add& args) override;
  Call gemm(const kernels::Gemm& args) override;

  // "cuBLAS 13.0.2", without the number before the first product.
  std::string gemm_library() const;

 private:
  kernels::cuda::Workspace workspace(std::size_t bytes);

  kernels::cuda::Stream stream_;
  bool has_sm80_;  // tensor cores for bf16, copies that go on in the background
  std::unique_ptr<kernels::cuda::Blas> blas_;  // a handle costs 100 ms and device memory
};

}  // namespace kvlane::calibrate
