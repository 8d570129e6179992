#include "sim/kv/kv_layout.h"

#include <algorithm>
#include <cmath>

#include "sim/base/check.h"

namespace kvlane {
namespace {

// One layer, apart from its offset.
LayerLayout lay_out(const ModelSpec& model, const LayerSpec& spec, std::int64_t prompt_tokens,
                    std::int64_t tokens_per_block, bool windows_as_full) {
  LayerLayout layer;
  layer.attention = spec.attention;
  if (spec.attention == AttentionKind::windowed && windows_as_full) {
    layer.attention = AttentionKind::full;
  }
  if (layer.attention == AttentionKind::linear) {
    layer.block_count = 1;
    layer.bytes = spec.state;
    return layer;
  }
  layer.tokens = prompt_tokens;
  if (layer.attention == AttentionKind::windowed) {
    layer.tokens = std::min(prompt_tokens, spec.window);
  }
  layer.first_token = prompt_tokens - layer.tokens;
  layer.kv_heads = spec.kv_heads;
  layer.key_width = spec.k_width;
  layer.row_bytes = static_cast<std::int64_t>(
      std::ceil(static_cast<double>(spec.k_width + spec.v_width) * model.kv_element_bytes));
  layer.first_block = layer.first_token / tokens_per_block;
  layer.block_count = (prompt_tokens + tokens_per_block - 1) / tokens_per_block - layer.first_block;
  layer.bytes = Bytes(layer.tokens * layer.kv_heads * layer.row_bytes);
  return layer;
}

}  // namespace

KvLayout::KvLayout(const ModelSpec& model, std::int64_t prompt_tokens, std::int64_t blocks,
                   int dense_layers, bool windows_as_full)
    : prompt_tokens_(prompt_tokens) {
  KVLANE_CHECK(prompt_tokens > 0 && blocks > 0, "{} tokens in {} blocks", prompt_tokens, blocks);
  tokens_per_block_ = (prompt_tokens + blocks - 1) / blocks;
  layers_.reserve(model.layers.size());
  for (const LayerSpec& spec : model.layers) {
    LayerLayout layer = lay_out(model, spec, prompt_tokens, tokens_per_block_, windows_as_full);
    layer.dense = std::ssize(layers_) < dense_layers ||
                  layer.attention == AttentionKind::windowed ||
                  layer.attention == AttentionKind::linear;
    layer.offset = total_.count();
    total_ += layer.bytes;
    total_blocks_ += layer.block_count;
    if (layer.dense) dense_ += layer.bytes;
    layers_.push_back(layer);
  }
}

std::int64_t KvLayout::block_tokens(std::size_t l, std::int64_t m) const {
  const LayerLayout& layer = layers_[l];
  if (layer.tokens == 0) return 0;
  const std::int64_t begin = std::max(m * tokens_per_block_, layer.first_token);
  const std::int64_t end = std::min((m + 1) * tokens_per_block_, prompt_tokens_);
  return std::max<std::int64_t>(end - begin, 0);
}

Bytes KvLayout::block_bytes(std::size_t l, std::int64_t m) const {
  const LayerLayout& layer = layers_[l];
  if (layer.attention == AttentionKind::linear) return m == 0 ? layer.bytes : Bytes(0);
  return Bytes(block_tokens(l, m) * layer.kv_heads * layer.row_bytes);
}

std::int64_t KvLayout::block_offset(std::size_t l, std::int64_t m) const {
  const LayerLayout& layer = layers_[l];
  const std::int64_t begin = std::max(m * tokens_per_block_, layer.first_token);
  return layer.offset + (begin - layer.first_token) * layer.kv_heads * layer.row_bytes;
}

}  // namespace kvlane
