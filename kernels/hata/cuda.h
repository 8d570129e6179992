#pragma once
// HATA codes and scores on a GPU. Pointers are device pointers; key codes lie at multiples of 16
// bytes, kv_tokens[i] is taken as clamped to [0, width]. Scores are the reference's bit for bit.

#include "kernels/common/cuda_budget.h"
#include "kernels/common/cuda_stream.h"
#include "kernels/hata/kernel.h"

namespace kvlane::kernels::cuda {

void hata_encode(const HataEncode& args, Stream stream);
void hata_score(const HataScore& args, Stream stream);
Budget hata_encode_budget();
Budget hata_score_budget();

}  // namespace kvlane::kernels::cuda
