#include "sim/select/selection_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "sim/base/check.h"

namespace kvlane {
namespace {

// Whether a is nearer to `to` than b in log: the ratios larger over smaller, no logarithm needed.
bool nearer(std::int64_t a, std::int64_t b, std::int64_t to) {
  const auto ratio = [to](std::int64_t v) {
    return v > to ? static_cast<double>(v) / static_cast<double>(to)
                  : static_cast<double>(to) / static_cast<double>(v);
  };
  return ratio(a) < ratio(b);
}

// Letters and digits, in lower case.
std::string plain(const std::string& name) {
  std::string out;
  for (const char c : name) {
    if (c >= 'A' && c <= 'Z') out.push_back(static_cast<char>(c - 'A' + 'a'));
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) out.push_back(c);
  }
  return out;
}

}  // namespace

SelectionSource selection_source(const SelectionSpec& spec, Selector selector,
                                 const std::string& model_name) {
  const bool known =
      std::any_of(spec.models.begin(), spec.models.end(),
                  [&](const std::string& model) { return plain(model) == plain(model_name); });
  if (selector == Selector::hata) {
    return {fmt::format("assumed from the exact top rows of {} ({}{})", spec.name, spec.source,
                        known ? "" : "; layers by relative depth"),
            Source::assumed};
  }
  if (known) return {spec.source, spec.source_class};
  return {fmt::format("assumed from {} ({}; layers by relative depth)", spec.name, spec.source),
          Source::assumed};
}

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
