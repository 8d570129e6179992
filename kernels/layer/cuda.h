#pragma once
// The layer operations on a GPU. Pointers are device pointers; tensors that lie at multiples of 16
// bytes, with rows that are, are read 16 bytes a load, others an element at a time. Ids are clamped
// to the vocabulary, which the device alone sees.

#include "kernels/common/cuda_budget.h"
#include "kernels/common/cuda_stream.h"
#include "kernels/layer/kernel.h"

namespace kvlane::kernels::cuda {

void rms_norm(const RmsNorm& args, Stream stream);
void rope(const Rope& args, Stream stream);
void gated_unit(const GatedUnit& args, Stream stream);
void embedding(const Embedding& args, Stream stream);
void add(const Add& args, Stream stream);

Budget rms_norm_budget();
Budget rope_budget();
Budget elementwise_budget();  // of gated_unit and add
Budget embedding_budget();

}  // namespace kvlane::kernels::cuda
