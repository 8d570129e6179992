#include "calibrate/live/compute/selection_chain.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "calibrate/live/compute/work_kernels.h"
#include "calibrate/measure/kernel_calls.h"
#include "sim/base/check.h"

namespace kvlane::live {
namespace {

using calibrate::Backend;
using calibrate::Call;
using calibrate::kBlockTokens;
using calibrate::Operands;
using Numbers = std::vector<std::int32_t>;

struct Shape {
  int sequences = 0, query_heads = 0, kv_heads = 0, width = 0, tokens = 0, chosen = 0;
  double rows() const { return static_cast<double>(sequences) * kv_heads; }
};

void add(SelectionChain& chain, Call call) {
  if (!call) throw std::runtime_error("this device lacks a kernel of the selection");
  chain.calls.push_back(std::move(call));
}

// HATA: codes of the queries and of the new keys, then Hamming distances.
const float* hata(SelectionChain& chain, const Shape& s, Backend& backend) {
  Operands& operands = backend.operands();
  kernels::HataEncode encode;
  encode.tokens = s.sequences;
  encode.heads = s.query_heads;
  encode.kv_heads = s.kv_heads;
  encode.head_dim = s.width;
  const double vectors = static_cast<double>(s.sequences) * s.query_heads;
  encode.x = operands.in(vectors * s.width);
  encode.weights = operands.in<float>(static_cast<double>(s.kv_heads) * s.width * 128);
  encode.codes = operands.out<kernels::HataCode>(vectors);
  encode.norms = operands.out<std::uint16_t>(vectors);
  add(chain, backend.hata_encode(encode));
  kernels::HataEncode keys = encode;
  keys.heads = s.kv_heads;
  keys.codes = operands.out<kernels::HataCode>(s.rows());
  keys.norms = operands.out<std::uint16_t>(s.rows());
  add(chain, backend.hata_encode(keys));
  kernels::HataScore score;
  score.sequences = s.sequences;
  score.query_heads = s.query_heads;
  score.kv_heads = s.kv_heads;
  score.width = s.tokens;
  score.kv_tokens = operands.list(Numbers(static_cast<std::size_t>(s.sequences), s.tokens));
  score.query_codes = encode.codes;
  score.key_codes = operands.in<kernels::HataCode>(s.rows() * s.tokens);
  score.key_norms = operands.in<std::uint16_t>(s.rows() * s.tokens);
  score.scores = operands.out<float>(s.rows() * s.tokens);
  add(chain, backend.hata_score(score));
  return score.scores;
}

// InfiniGen: queries of this layer from the input of the one before it, a few channels of them,
// their logits over all partial keys.
const float* infinigen(SelectionChain& chain, const Shape& s, int channels, std::int64_t hidden,
                       const std::string& gemm_dtype, Backend& backend) {
  Operands& operands = backend.operands();
  Sample product;
  product.kernel = "gemm";
  product.shape = {s.sequences, static_cast<std::int64_t>(s.query_heads) * s.width, hidden};
  product.dtype = gemm_dtype;
  add(chain, calibrate::kernel_call(product, backend));
  kernels::InfinigenProject project;
  project.tokens = s.sequences;
  project.heads = s.query_heads;
  project.kv_heads = s.kv_heads;
  project.head_dim = s.width;
  project.channels_kept = channels;
  Numbers kept;
  for (int head = 0; head < s.kv_heads; ++head) {
    for (int c = 0; c < channels; ++c) kept.push_back(c * s.width / channels);
  }
  project.channels = operands.list(kept);
  const double vectors = static_cast<double>(s.sequences) * s.query_heads;
  project.x = operands.in(vectors * s.width);
  project.skew = operands.in<float>(static_cast<double>(s.kv_heads) * s.width * s.width);
  project.partial = operands.out(vectors * channels);
  add(chain, backend.infinigen_project(project));
  kernels::InfinigenScore score;
  score.sequences = s.sequences;
  score.query_heads = s.query_heads;
  score.kv_heads = s.kv_heads;
  score.channels_kept = channels;
  score.width = s.tokens;
  score.kv_tokens = operands.list(Numbers(static_cast<std::size_t>(s.sequences), s.tokens));
  score.query = project.partial;
  score.keys = operands.in(s.rows() * s.tokens * channels);
  score.cap = s.chosen;
  // Logits of synthetic vectors grow with the width; this keeps them where a softmax tells them
  // apart and does not end in a single one.
  score.scale = 1 / (static_cast<float>(s.width) * std::sqrt(static_cast<float>(channels)));
  score.scores = operands.out<float>(s.rows() * s.tokens);
  score.take = operands.out<std::int32_t>(1);
  add(chain, backend.infinigen_score(score));
  return score.scores;
}

}  // namespace

SelectionChain selection_chain(const Work& work, const CostModel& model, Backend& backend,
                               const std::string& gemm_dtype) {
  KVLANE_CHECK(work.layer.is_valid() && work.layer.index() < model.model().layers.size(),
               "{} has no layer {}", model.model().name, work.layer.value());
  KVLANE_CHECK(work.selector_bytes > 0, "selection without metadata");
  const LayerSpec& layer = model.model().layers[work.layer.index()];
  const RankHeads heads = rank_heads(layer, model.tp());
  Shape s;
  s.sequences = static_cast<int>(work.batch);
  s.query_heads = static_cast<int>(heads.query);
  s.kv_heads = static_cast<int>(heads.kv);
  s.width = static_cast<int>(layer.k_width);
  s.tokens = static_cast<int>(std::max<std::int64_t>(work.context_tokens / work.batch, 1));
  s.chosen = std::max(s.tokens / 5, 1);
  SelectionChain chain;
  const float* scores = work.hashed
                            ? hata(chain, s, backend)
                            : infinigen(chain, s, std::clamp(work.selector_bytes / 2, 1, s.width),
                                        model.model().hidden, gemm_dtype, backend);
  Operands& operands = backend.operands();
  kernels::TopK topk;
  topk.rows = s.sequences * s.kv_heads;
  topk.width = s.tokens;
  topk.scores = scores;
  topk.k = s.chosen;
  topk.index = operands.out<std::int32_t>(s.rows() * s.chosen);
  topk.count = operands.out<std::int32_t>(s.rows());
  add(chain, backend.topk(topk));
  kernels::IndexSplit split;
  split.sequences = s.sequences;
  split.kv_heads = s.kv_heads;
  split.index_width = s.chosen;
  split.block_tokens = kBlockTokens;
  split.blocks = (s.tokens + kBlockTokens - 1) / kBlockTokens;
  split.index = topk.index;
  split.index_count = topk.count;
  std::vector<std::uint8_t> mask;
  for (int block = 0; block < s.sequences * split.blocks; ++block) {
    mask.push_back((operands.random() & 1U) != 0 ? 1 : 2);
  }
  split.block_mask = operands.list(mask);
  split.split = operands.out<std::int32_t>(s.rows() * s.chosen);
  split.local_count = operands.out<std::int32_t>(s.rows());
  add(chain, backend.index_split(split));
  chain.output = {s.sequences, s.kv_heads,  s.tokens,         s.chosen,
                  split.index, split.split, split.local_count};
  return chain;
}

}  // namespace kvlane::live
