#include "sim/scenario/profile_file.h"

#include <cmath>

namespace kvlane {
namespace {

using enum Need;

// A layer of the file: its number goes to another list than its parameters.
struct LayerEntry {
  std::int64_t layer = 0;
  LayerSelection values;
};
struct FitEntry {
  SelectionFit fit;
  std::vector<LayerEntry> layers;
};

constexpr Range kUnit{0, 1};
constexpr Range kSpread{0, 10};

const Mapping<LayerEntry>& layer_mapping() {
  const auto value = [](double LayerSelection::*member) {
    return [member](LayerEntry& entry) -> double& { return entry.values.*member; };
  };
  static const Mapping<LayerEntry> table =
      Mapping<LayerEntry>("layer statistics", "What one measured layer selects.")
          .integer("layer", &LayerEntry::layer, required, "Number of the layer, from 0.",
                   {0, 65534})
          .share("n", value(&LayerSelection::n), required, "Rows selected / prompt tokens.",
                 {0, 1, true})
          .number("sigma_n", value(&LayerSelection::sigma_n), required,
                  "Standard deviation of ln n from step to step.", kSpread)
          .number("rho_n", value(&LayerSelection::rho_n), required,
                  "Correlation of ln n from one step to the next.", kUnit)
          .number("sigma_between", value(&LayerSelection::sigma_between), required,
                  "Standard deviation of ln n between texts.", kSpread)
          .number("g", value(&LayerSelection::g), required, "Exponent of the recency power law.",
                  {0, 100})
          .number("a0", value(&LayerSelection::a0), required, "Its offset, in tokens of age.",
                  {0, 1e9, true})
          .number("w_static", value(&LayerSelection::w_static), required,
                  "Variance of a row's own affinity; the three weights add up to 1.", kUnit)
          .number("w_ar", value(&LayerSelection::w_ar), required, "Variance of its slow part.",
                  kUnit)
          .number("w_noise", value(&LayerSelection::w_noise), required,
                  "Variance of what is new at every step.", kUnit)
          .number("rho", value(&LayerSelection::rho), required,
                  "Correlation of the slow part from one step to the next.", kUnit)
          .share("mass", value(&LayerSelection::mass), required,
                 "Attention mass of the selected rows.")
          .share("mass_cap", value(&LayerSelection::mass_cap), required,
                 "Attention mass of the exact top `cap`.");
  return table;
}

const Mapping<FitEntry>& fit_mapping() {
  static const Mapping<FitEntry> table =
      Mapping<FitEntry>("selection fit", "One selector at one prompt length.")
          .words(
              "selector", [](FitEntry& f) -> Selector& { return f.fit.selector; },
              {{"infinigen", Selector::infinigen}, {"hata", Selector::hata}}, required,
              "infinigen: its threshold; hata: the exact top rows.")
          .integer("prompt_tokens",
                   [](FitEntry& f) -> std::int64_t& { return f.fit.prompt_tokens; }, required,
                   "Length of the measured prompts.", {1, 1e9})
          .share("cap", [](FitEntry& f) -> double& { return f.fit.cap; }, required,
                 "Most rows a step selected, of the current length.", {0, 1, true})
          .number(
              "head_correlation", [](FitEntry& f) -> double& { return f.fit.head_correlation; },
              required, "Share of a row's affinity that the kv heads of a layer have in common.",
              kUnit)
          .list("layers", &FitEntry::layers, layer_mapping(), required, "The measured layers.",
                {1, 1000});
  return table;
}

SelectionFit to_fit(const YamlNode& node, std::int64_t layer_count) {
  FitEntry entry;
  fit_mapping().read(node, entry);
  std::int64_t last = -1;
  for (std::size_t i = 0; i < entry.layers.size(); ++i) {
    const LayerEntry& layer = entry.layers[i];
    const auto place = [&](const char* key) { return node_at(node, {"layers", i, key}).place; };
    if (layer.layer <= last || layer.layer >= layer_count) {
      throw InputError(place("layer"), fmt::format("layer {}", layer.layer),
                       fmt::format("expected ascending layers below {}", layer_count));
    }
    last = layer.layer;
    const double sum = layer.values.w_static + layer.values.w_ar + layer.values.w_noise;
    if (std::abs(sum - 1) > 0.001) {
      throw InputError(place("w_static"), fmt::format("weights that add up to {:.4f}", sum),
                       "expected w_static + w_ar + w_noise = 1");
    }
    entry.fit.layer_index.push_back(layer.layer);
    entry.fit.layers.push_back(layer.values);
  }
  return std::move(entry.fit);
}

}  // namespace

const Mapping<SelectionSpec>& profile_mapping() {
  static const Mapping<SelectionSpec> table = [] {
    Mapping<SelectionSpec> t("profile", "KV selection of a measured model, by layer.");
    t.text("name", &SelectionSpec::name, required, "Name of the preset: that of the file.")
        .text("source", &SelectionSpec::source, required, "Where the numbers come from.")
        .words("source_class", &SelectionSpec::source_class,
               {{"measured", Source::measured},
                {"table", Source::table},
                {"extrapolated", Source::extrapolated},
                {"datasheet", Source::datasheet},
                {"assumed", Source::assumed}},
               required, "How far they can be trusted.")
        .list_of("models", &SelectionSpec::models, ValueType::Kind::text, required,
                 "Names of the measured model; any other model is `assumed from` this one.",
                 read_text)
        .integer("layers", &SelectionSpec::measured_layers, required, "Layers of the model.",
                 {1, 65535});
    ValueType fit{ValueType::Kind::mapping};
    fit.mapping = &fit_mapping();
    ValueType fits{ValueType::Kind::list};
    fits.range = {1, 1000};
    fits.choices = {fit};
    // Read by profile_from_yaml once the number of layers is known.
    t.custom("fits", fits, required, "Parameters by selector and prompt length.",
             [](SelectionSpec&, const YamlNode& node) {
               check_list(node, {1, 1000});
             });
    return t;
  }();
  return table;
}

SelectionSpec profile_from_yaml(const YamlNode& root) {
  SelectionSpec spec;
  profile_mapping().read(root, spec);
  for (const YamlNode& node : root.find("fits")->items) {
    SelectionFit fit = to_fit(node, spec.measured_layers);
    for (const SelectionFit& other : spec.fits) {
      if (other.selector == fit.selector && other.prompt_tokens == fit.prompt_tokens) {
        throw InputError(node_at(node, {"prompt_tokens"}).place,
                         fmt::format("{} prompt tokens a second time", fit.prompt_tokens),
                         "expected every length once a selector");
      }
    }
    spec.fits.push_back(std::move(fit));
  }
  return spec;
}

SelectionSpec read_profile(std::string_view text, const std::string& name) {
  return profile_from_yaml(parse_yaml(text, name));
}

SelectionSpec read_profile(const PlacedText& name, InputFiles& files) {
  const std::string path = files.find(name, "profiles");
  return read_profile(files.read(path, name.place), path);
}

}  // namespace kvlane
