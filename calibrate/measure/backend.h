#pragma once
// A device's kernels, each as a call of arguments whose pointers that device can read. What turns a
// sample's shape into arguments (kernel_calls.h) knows no more of it.

#include "calibrate/measure/device.h"
#include "calibrate/measure/operands.h"
#include "kernels/decode_attention/kernel.h"
#include "kernels/gemm/kernel.h"
#include "kernels/hack/kernel.h"
#include "kernels/hata/kernel.h"
#include "kernels/index_split/kernel.h"
#include "kernels/infinigen/kernel.h"
#include "kernels/layer/kernel.h"
#include "kernels/prefill_attention/kernel.h"
#include "kernels/sparse_attention/kernel.h"
#include "kernels/topk/kernel.h"

namespace kvlane::calibrate {

// Calls are empty where the device lacks the kernel, and throw NoRoom where a workspace does not
// fit. `new_tokens`, `kv_tokens`: those of every sequence, which a GPU must know on the host.
class Backend {
 public:
  explicit Backend(Operands& operands) : operands_(operands) {}
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;
  Operands& operands() { return operands_; }

  virtual Call prefill_attention(const kernels::PrefillAttention& args, int new_tokens,
                                 int kv_tokens) = 0;
  virtual Call decode_attention(const kernels::DecodeAttention& args, int kv_tokens) = 0;
  virtual Call sparse_attention(const kernels::SparseAttention& args) = 0;
  virtual Call hata_encode(const kernels::HataEncode& args) = 0;
  virtual Call hata_score(const kernels::HataScore& args) = 0;
  virtual Call infinigen_project(const kernels::InfinigenProject& args) = 0;
  virtual Call infinigen_score(const kernels::InfinigenScore& args) = 0;
  virtual Call topk(const kernels::TopK& args) = 0;
  virtual Call index_split(const kernels::IndexSplit& args) = 0;
  virtual Call hack_append(const kernels::HackAppend& args, int new_tokens) = 0;
  virtual Call hack_attention(const kernels::HackAttention& args, int kv_tokens) = 0;
  virtual Call hack_dequantise_attention(const kernels::HackAttention& args, int kv_tokens) = 0;
  virtual Call rms_norm(const kernels::RmsNorm& args) = 0;
  virtual Call rope(const kernels::Rope& args) = 0;
  virtual Call gated_unit(const kernels::GatedUnit& args) = 0;
  virtual Call embedding(const kernels::Embedding& args) = 0;
  virtual Call add(const kernels::Add& args) = 0;
  virtual Call gemm(const kernels::Gemm& args) = 0;

 private:
  Operands& operands_;
};

}  // namespace kvlane::calibrate
