#include "sim/select/selection_spec.h"

#include <fmt/format.h>

#include <cstdlib>

#include "sim/base/check.h"

namespace kvlane {
namespace {

// |ln(a / b)| without a logarithm: the larger over the smaller, as integers to compare exactly.
bool nearer(std::int64_t a, std::int64_t b, std::int64_t to) {
  const auto ratio = [to](std::int64_t v) {
    return v > to ? static_cast<double>(v) / static_cast<double>(to)
                  : static_cast<double>(to) / static_cast<double>(v);
  };
  return ratio(a) < ratio(b);
}

}  // namespace

const SelectionFit& nearest_fit(const SelectionSpec& spec, Selector selector,
                                std::int64_t prompt_tokens) {
  const SelectionFit* best = nullptr;
  for (const bool any_selector : {false, true}) {
    for (const SelectionFit& fit : spec.fits) {
      if (!any_selector && fit.selector != selector) continue;
      if (!best || nearer(fit.prompt_tokens, best->prompt_tokens, prompt_tokens)) best = &fit;
    }
    if (best) break;
  }
  KVLANE_CHECK(best, "selection statistics '{}' without a fit", spec.name);
  return *best;
}

const LayerSelection& layer_at_depth(const SelectionFit& fit, std::int64_t measured_layers,
                                     std::int64_t layer, std::int64_t layer_count) {
  KVLANE_CHECK(!fit.layers.empty() && fit.layers.size() == fit.layer_index.size(),
               "{} layers, {} indices", fit.layers.size(), fit.layer_index.size());
  // Relative depth: (l + 1/2) / L. Distances are compared after multiplication by 2 L L', exactly.
  std::size_t best = 0;
  std::int64_t best_distance = -1;
  for (std::size_t i = 0; i < fit.layers.size(); ++i) {
    const std::int64_t distance =
        std::abs((2 * fit.layer_index[i] + 1) * layer_count - (2 * layer + 1) * measured_layers);
    if (best_distance < 0 || distance < best_distance) {
      best = i;
      best_distance = distance;
    }
  }
  return fit.layers[best];
}

}  // namespace kvlane
