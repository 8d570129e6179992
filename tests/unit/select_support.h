#pragma once
// What the tests of selection share: profiles as shipped, small models, every row of a text.

#include <bit>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "sim/kv/kv_layout.h"
#include "sim/scenario/profile_file.h"
#include "sim/select/layer_text.h"

namespace kvlane::select_test {

inline std::string file_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

inline SelectionSpec profile(const std::string& name) {
  const std::string path = "scenarios/profiles/" + name + ".yaml";
  return read_profile(file_text(path), path);
}

inline ModelSpec model(std::size_t layers, std::int64_t kv_heads) {
  LayerSpec layer;
  layer.query_heads = 4 * kv_heads;
  layer.kv_heads = kv_heads;
  layer.head_dim = layer.k_width = layer.v_width = 64;
  ModelSpec spec;
  spec.name = "test";
  spec.hidden = 1024;
  spec.layers.assign(layers, layer);
  return spec;
}

// 18 layers, every sixth global, the others see the last 512 tokens.
inline ModelSpec gemma3() {
  ModelSpec spec = model(18, 1);
  for (std::size_t l = 0; l < spec.layers.size(); ++l) {
    if (l % 6 == 5) continue;
    spec.layers[l].attention = AttentionKind::windowed;
    spec.layers[l].window = 512;
  }
  return spec;
}

// The lives of all rows that any step selects, block after block: bit s of a word for step s, the
// heads of a token side by side. At most 64 steps.
class RowVisitor {
 public:
  explicit RowVisitor(const select::LifeLibrary& library) : library_(library) {}
  void begin_block(std::int64_t) { block_begin.push_back(prompt.size()); }
  void end_block(std::int64_t) {}
  void always(std::int64_t rows) {
    const std::uint64_t all = ~std::uint64_t{0} >> (64 - library_.steps());
    prompt.insert(prompt.end(), static_cast<std::size_t>(rows), all);
  }
  void far(std::int64_t level, std::uint32_t group) { near(library_.lives(level, group)); }
  void near(const std::uint64_t* lives) {
    prompt.insert(prompt.end(), lives, lives + library_.heads());
  }
  void generated(const std::uint64_t* lives) {
    decoded.insert(decoded.end(), lives, lives + library_.heads());
  }

  std::vector<std::uint64_t> prompt, decoded;
  std::vector<std::size_t> block_begin;  // of each block in prompt

 private:
  const select::LifeLibrary& library_;
};

}  // namespace kvlane::select_test
