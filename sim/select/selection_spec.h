#pragma once
// The statistics of KV selection of one model, per layer (scenarios/profiles/*.yaml):
//   z(s,t,h) = -g ln(1 + (p - t)/a0) + sqrt(w_static) u(t,h) + sqrt(w_ar) x(s,t,h) + sqrt(w_noise)
//   N
// the n(s) largest of the p = T + s positions are selected, the first `sinks` always.

#include <cstdint>
#include <string>
#include <vector>

#include "sim/gpu/gpu_spec.h"

namespace kvlane {

enum class Selector : std::uint8_t { infinigen, hata };
enum class SelectCount : std::uint8_t { cap, threshold };

struct LayerSelection {
  double n = 0;              // mean rows / T of the selector's own count
  double sigma_n = 0;        // spread of ln n(s) from step to step
  double rho_n = 0;          // AR(1) of it
  double sigma_between = 0;  // spread of ln n between texts
  double g = 0, a0 = 0;      // recency power law
  double w_static = 0, w_ar = 0, w_noise = 0;
  double rho = 0;       // AR(1) of x from step to step
  double mass = 0;      // attention mass of the selected rows (measured mean), own count
  double mass_cap = 0;  // the same for the exact top `cap`
};

// One fit: a selector at one prompt length.
struct SelectionFit {
  Selector selector = Selector::infinigen;
  std::int64_t prompt_tokens = 0;
  double cap = 0.20;
  double head_correlation = 0.5;          // c: share of u common to the heads of a layer
  std::vector<std::int64_t> layer_index;  // of the measured model
  std::vector<LayerSelection> layers;
};

struct SelectionSpec {
  std::string name;
  std::string source;  // "measured on ..."
  Source source_class = Source::measured;
  std::vector<std::string> models;  // that were measured, by the names they go by
  std::int64_t measured_layers = 0;
  std::vector<SelectionFit> fits;
};

// Where the selection of a model comes from: `source` as it stands for a model that was measured
// (letter case and punctuation of the name do not matter), "assumed from ..." for any other. HATA's
// statistics are those of an exact top k, since no trained hashes were measured: always assumed.
struct SelectionSource {
  std::string text;
  Source source_class = Source::assumed;
};
SelectionSource selection_source(const SelectionSpec& spec, Selector selector,
                                 const std::string& model_name);

// The parameters that layer `layer` of a model with `layer_count` layers uses for `prompt_tokens`
// tokens: the fit of the nearest length (in log; of another selector where this one has none), the
// measured layer of nearest relative depth.
const SelectionFit& nearest_fit(const SelectionSpec& spec, Selector selector,
                                std::int64_t prompt_tokens);
const LayerSelection& layer_at_depth(const SelectionFit& fit, std::int64_t measured_layers,
                                     std::int64_t layer, std::int64_t layer_count);

}  // namespace kvlane
