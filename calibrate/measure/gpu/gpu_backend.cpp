#include "calibrate/measure/gpu/gpu_backend.h"

#include "kernels/decode_attention/cuda.h"
#include "kernels/hack/cuda.h"
#include "kernels/hata/cuda.h"
#include "kernels/index_split/cuda.h"
#include "kernels/infinigen/cuda.h"
#include "kernels/layer/cuda.h"
#include "kernels/prefill_attention/cuda.h"
#include "kernels/sparse_attention/cuda.h"
#include "kernels/topk/cuda.h"

namespace kvlane::calibrate {

namespace cuda = kernels::cuda;

namespace {

bool attends(const kernels::KvCache& kv) {
  return kv.head_dim == 64 || kv.head_dim == 128 || kv.head_dim == 256;
}

}  // namespace

cuda::Workspace GpuBackend::workspace(std::size_t bytes) {
  return {operands().out<std::byte>(static_cast<double>(bytes)), bytes};
}

Call GpuBackend::prefill_attention(const kernels::PrefillAttention& args, int new_tokens,
                                   int kv_tokens) {
  if (!has_sm80_ || !attends(args.kv)) return {};
  const auto room = workspace(cuda::prefill_attention_workspace(args, new_tokens, kv_tokens));
  return
      [=, stream = stream_] { cuda::prefill_attention(args, new_tokens, kv_tokens, room, stream); };
}

Call GpuBackend::decode_attention(const kernels::DecodeAttention& args, int kv_tokens) {
  if (!attends(args.kv)) return {};
  const auto room = workspace(cuda::decode_attention_workspace(args, kv_tokens));
  return [=, stream = stream_] { cuda::decode_attention(args, kv_tokens, room, stream); };
}

Call GpuBackend::sparse_attention(const kernels::SparseAttention& args) {
  if (!attends(args.kv)) return {};
  const auto room = workspace(cuda::sparse_attention_workspace(args));
  return [=, stream = stream_] { cuda::sparse_attention(args, room, stream); };
}

Call GpuBackend::hata_encode(const kernels::HataEncode& args) {
  return [args, stream = stream_] { cuda::hata_encode(args, stream); };
}

Call GpuBackend::hata_score(const kernels::HataScore& args) {
  return [args, stream = stream_] { cuda::hata_score(args, stream); };
}

Call GpuBackend::infinigen_project(const kernels::InfinigenProject& args) {
  return [args, stream = stream_] { cuda::infinigen_project(args, stream); };
}

Call GpuBackend::infinigen_score(const kernels::InfinigenScore& args) {
  const auto room = workspace(cuda::infinigen_workspace(args));
  return [=, stream = stream_] { cuda::infinigen_score(args, room, stream); };
}

Call GpuBackend::topk(const kernels::TopK& args) {
  const auto room = workspace(cuda::topk_workspace(args));
  return [=, stream = stream_] { cuda::topk(args, room, stream); };
}

Call GpuBackend::index_split(const kernels::IndexSplit& args) {
  return [args, stream = stream_] { cuda::index_split(args, stream); };
}

Call GpuBackend::hack_append(const kernels::HackAppend& args, int new_tokens) {
  if (!has_sm80_) return {};
  return [=, stream = stream_] { cuda::hack_append(args, new_tokens, stream); };
}

Call GpuBackend::hack_attention(const kernels::HackAttention& args, int kv_tokens) {
  if (!has_sm80_) return {};
  const auto room = workspace(cuda::hack_attention_workspace(args, kv_tokens));
  return [=, stream = stream_] { cuda::hack_attention(args, kv_tokens, room, stream); };
}

Call GpuBackend::hack_dequantise_attention(const kernels::HackAttention& args, int kv_tokens) {
  if (!has_sm80_) return {};
  const auto room = workspace(cuda::hack_attention_workspace(args, kv_tokens));
  return [=, stream = stream_] { cuda::hack_dequantise_attention(args, kv_tokens, room, stream); };
}

Call GpuBackend::rms_norm(const kernels::RmsNorm& args) {
  return [args, stream = stream_] { cuda::rms_norm(args, stream); };
}

Call GpuBackend::rope(const kernels::Rope& args) {
  return [args, stream = stream_] { cuda::rope(args, stream); };
}

Call GpuBackend::gated_unit(const kernels::GatedUnit& args) {
  return [args, stream = stream_] { cuda::gated_unit(args, stream); };
}

Call GpuBackend::embedding(const kernels::Embedding& args) {
  return [args, stream = stream_] { cuda::embedding(args, stream); };
}

Call GpuBackend::add(const kernels::Add& args) {
  return [args, stream = stream_] { cuda::add(args, stream); };
}

Call GpuBackend::gemm(const kernels::Gemm& args) {
  if (!blas_) blas_ = std::make_unique<cuda::Blas>();
  return [args, &blas = *blas_, stream = stream_] { cuda::gemm(args, blas, stream); };
}

std::string GpuBackend::gemm_library() const {
  return blas_ ? "cuBLAS " + blas_->version() : std::string("cuBLAS");
}

}  // namespace kvlane::calibrate
