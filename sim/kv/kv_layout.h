#pragma once
// Where the KV of one request lies: layers of blocks. Block m of a layer is the same share of the
// prompt in every layer, ceil(tokens / M) tokens of it (docs/system.md 2), with K and V of all kv
// heads of those tokens, contiguous. A windowed layer holds the prompt's last `window` tokens only;
// a linear layer's state is one block (number 0) without tokens.

#include <cstdint>
#include <vector>

#include "sim/kv/model_spec.h"

namespace kvlane {

struct LayerLayout {
  AttentionKind attention = AttentionKind::full;
  bool dense = false;            // needed whole at the first step (layers 0 and 1, windows, states)
  std::int64_t first_token = 0;  // of the prompt, that the layer still holds
  std::int64_t tokens = 0;       // that it holds
  std::int64_t kv_heads = 0;     // rows a token (1 for latent, 0 for linear)
  std::int64_t key_width = 0;    // elements of K in a row
  std::int64_t row_bytes = 0;    // K and V of one token and kv head, as the model stores them
  std::int64_t block_count = 0;  // blocks with at least one token held
  std::int64_t first_block = 0;  // the first of them
  std::int64_t offset = 0;       // bytes from the start of the request's region
  Bytes bytes{0};                // of the layer in all
};

class KvLayout {
 public:
  // `blocks`: M. `dense_layers`: how many leading layers are always needed whole.
  KvLayout(const ModelSpec& model, std::int64_t prompt_tokens, std::int64_t blocks,
           int dense_layers, bool windows_as_full);

  std::int64_t prompt_tokens() const { return prompt_tokens_; }
  std::int64_t tokens_per_block() const { return tokens_per_block_; }
  std::int64_t layer_count() const { return static_cast<std::int64_t>(layers_.size()); }
  const LayerLayout& layer(std::size_t l) const { return layers_[l]; }
  // Tokens of block m that layer l holds (the last block and a window's first can be short).
  std::int64_t block_tokens(std::size_t l, std::int64_t m) const;
  Bytes block_bytes(std::size_t l, std::int64_t m) const;
  std::int64_t block_offset(std::size_t l, std::int64_t m) const;
  // Rows of a block: its tokens x kv heads.
  std::int64_t block_rows(std::size_t l, std::int64_t m) const {
    return block_tokens(l, m) * layers_[l].kv_heads;
  }
  Bytes total_bytes() const { return total_; }
  std::int64_t total_blocks() const { return total_blocks_; }  // over all layers
  Bytes dense_bytes() const { return dense_; }                 // of the layers marked dense

 private:
  std::int64_t prompt_tokens_ = 0;
  std::int64_t tokens_per_block_ = 0;
  std::int64_t total_blocks_ = 0;
  Bytes total_{0};
  Bytes dense_{0};
  std::vector<LayerLayout> layers_;
};

}  // namespace kvlane
