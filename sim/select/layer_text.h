#pragma once
// One layer of one text before any row is drawn. Libraries and scans made from it are always the
// same, so nothing but the seed has to be kept.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/base/rng.h"
#include "sim/kv/kv_layout.h"
#include "sim/select/generator.h"
#include "sim/select/life_library.h"
#include "sim/select/token_scan.h"

namespace kvlane::select {

inline bool layer_selects(const LayerLayout& layer) {
  return !layer.dense && layer.kv_heads > 0 && layer.tokens > 0;
}

// Names of random streams: of a request of the run, and of a text of the offline profile.
std::string request_stream(std::uint32_t request, std::int64_t layer);
std::string profile_stream(int text, std::int64_t layer);

class LayerText {
 public:
  // `stream` names the text and the layer; streams below it are those of the counts, the paths and
  // the tokens.
  LayerText(const LayerSelection& layer, double head_correlation, const KvLayout& layout,
            const DemandSpec& demand, std::int64_t heads, std::string stream);

  const TokenGrid& grid() const { return grid_; }
  std::int64_t heads() const { return heads_; }
  LifeLibrary decode_library() const;  // steps 0 ..
  LifeLibrary past_library() const;    // steps -kVirtualSteps .. -1
  TokenScan decode_scan(const LifeLibrary& library) const;
  TokenScan past_scan(const LifeLibrary& library) const;

 private:
  Rng rng(const char* what) const { return {seed_, stream_ + what}; }

  LayerSelection layer_;
  double head_correlation_ = 0;
  std::int64_t heads_ = 0;
  std::uint64_t seed_ = 0;
  std::string stream_;
  TokenGrid grid_;
  std::vector<double> theta_;  // from step -kVirtualSteps on
};

}  // namespace kvlane::select
