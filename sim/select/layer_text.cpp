#include "sim/select/layer_text.h"

#include <fmt/format.h>

#include <utility>

#include "sim/select/row_count.h"

namespace kvlane::select {

std::string request_stream(std::uint32_t request, std::int64_t layer) {
  return fmt::format("select/request {}/layer {}/", request, layer);
}

std::string profile_stream(int text, std::int64_t layer) {
  return fmt::format("select/profile text {}/layer {}/", text, layer);
}

LayerText::LayerText(const LayerSelection& layer, double head_correlation, const KvLayout& layout,
                     const DemandSpec& demand, std::int64_t heads, std::string stream)
    : layer_(layer),
      head_correlation_(head_correlation),
      heads_(heads),
      seed_(demand.seed),
      stream_(std::move(stream)) {
  const std::int64_t tokens = layout.prompt_tokens(), size = layout.tokens_per_block();
  grid_ = {tokens, size, (tokens + size - 1) / size};
  const CountRule rule{demand.selector == Selector::hata ? SelectCount::cap : demand.count,
                       demand.cap};
  theta_ = thresholds(
      layer, tokens,
      row_counts(layer, rule, tokens, demand.steps, rng("counts"), rng("counts of the past")));
}

LifeLibrary LayerText::decode_library() const {
  return {layer_,       head_correlation_, heads_, std::span(theta_).subspan(kVirtualSteps),
          rng("paths"), rng("future"),     false};
}

LifeLibrary LayerText::past_library() const {
  return {layer_,       head_correlation_, heads_, std::span(theta_).first(kVirtualSteps),
          rng("paths"), rng("past"),       true};
}

TokenScan LayerText::decode_scan(const LifeLibrary& library) const {
  return {layer_, library, grid_, 0, rng("tokens")};
}

TokenScan LayerText::past_scan(const LifeLibrary& library) const {
  return {layer_, library, grid_, -kVirtualSteps, rng("tokens")};
}

}  // namespace kvlane::select
