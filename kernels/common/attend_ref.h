#pragma once
// Attention of one query head over named tokens, in double: the truth that every backend's
// attention is held against. Empty: 0. All logits -infinity, a NaN or +infinity among them: NaN.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/common/kv_cache.h"

namespace kvlane::kernels::ref {

struct Attend {
  const KvCache* kv = nullptr;
  int sequence = 0;
  int kv_head = 0;
  double scale = 1;
  double soft_cap = 0;
};

// query and out: element `at` of their tensors onwards, kv->head_dim elements.
inline void attend(const Attend& args, const std::vector<std::int32_t>& tokens, const void* query,
                   void* out, std::size_t at) {
  const KvCache& kv = *args.kv;
  const auto width = static_cast<std::size_t>(kv.head_dim);
  std::vector<double> logits(tokens.size());
  double top = -std::numeric_limits<double>::infinity();
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    const std::size_t row = kv.row(args.sequence, args.kv_head, tokens[t]) * kv.row_elements();
    double logit = 0;
    for (std::size_t i = 0; i < width; ++i) {
      logit += static_cast<double>(load(query, kv.format, at + i)) *
               static_cast<double>(load(kv.rows, kv.format, row + i));
    }
    logit *= args.scale;
    if (args.soft_cap > 0) logit = args.soft_cap * std::tanh(logit / args.soft_cap);
    logits[t] = logit;
    top = std::max(top, logit);
  }
  double sum = 0;
  std::vector<double> values(width, 0.0);
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    const double weight = std::exp(logits[t] - top);
    sum += weight;
    const std::size_t row = kv.row(args.sequence, args.kv_head, tokens[t]) * kv.row_elements();
    for (std::size_t i = 0; i < width; ++i) {
      values[i] += weight * static_cast<double>(load(kv.rows, kv.format, row + width + i));
    }
  }
  for (std::size_t i = 0; i < width; ++i) {
    store(out, kv.format, at + i, tokens.empty() ? 0.0f : static_cast<float>(values[i] / sum));
  }
}

}  // namespace kvlane::kernels::ref
