// Profile files (scenarios/profiles): the shipped ones, which parameters a layer gets, what is
// refused.
#include <doctest/doctest.h>

#include <cmath>

#include "select_support.h"
#include "sim/base/input_error.h"

using namespace kvlane;
using select_test::profile;

namespace {

const std::string kLayer =
    "      - {layer: 2, n: 5 %, sigma_n: 0.1, rho_n: 0, sigma_between: 0, g: 1, a0: 10, "
    "w_static: 0.7, w_ar: 0.2, w_noise: 0.1, rho: 0.9, mass: 90 %, mass_cap: 95 %}\n";
const std::string kFit =
    "  - selector: infinigen\n    prompt_tokens: 4096\n    cap: 20 %\n    head_correlation: 0.5\n"
    "    layers:\n" +
    kLayer;
const std::string kFile =
    "name: x\nsource: measured on x\nsource_class: measured\nmodels: [X-1]\nlayers: 4\nfits:\n" +
    kFit;

std::string error_of(const std::string& text) {
  try {
    read_profile(text, "x.yaml");
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}
std::string changed(const std::string& from, const std::string& to) {
  std::string text = kFile;
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}
bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("profile files: SmolLM2 as measured") {
  const SelectionSpec spec = profile("smollm2");
  CHECK(spec.name == "smollm2");
  CHECK(spec.source_class == Source::measured);
  CHECK(spec.source.rfind("measured on", 0) == 0);
  REQUIRE(spec.fits.size() == 4);
  for (const SelectionFit& fit : spec.fits) {
    CHECK(fit.layers.size() == 28);  // layers 0 and 1 are dense
    CHECK(fit.layer_index.front() == 2);
    CHECK(fit.head_correlation == 0.5);
  }
  // Measured: layer 2 sits at the cap (0.19), layer 20 takes 0.004 of T.
  const SelectionFit& fit = nearest_fit(spec, Selector::infinigen, 4096);
  CHECK(fit.layers[0].n == doctest::Approx(0.1899));
  CHECK(fit.layers[18].n < 0.01);
  // Mean attention mass over layers >= 2: 0.84 and 0.985.
  double own = 0, cap = 0;
  for (const LayerSelection& layer : fit.layers) {
    own += layer.mass / 28;
    cap += layer.mass_cap / 28;
  }
  CHECK(own == doctest::Approx(0.84).epsilon(0.01));
  CHECK(cap == doctest::Approx(0.984).epsilon(0.01));
}

TEST_CASE("profile files: the fit of the nearest length in log") {
  const SelectionSpec spec = profile("smollm2");
  const auto length = [&](Selector selector, std::int64_t tokens) {
    return nearest_fit(spec, selector, tokens).prompt_tokens;
  };
  // sqrt(2048 * 4096) = 2896.3, sqrt(4096 * 8192) = 5792.6.
  CHECK(length(Selector::infinigen, 1) == 2048);
  CHECK(length(Selector::infinigen, 2896) == 2048);
  CHECK(length(Selector::infinigen, 2897) == 4096);
  CHECK(length(Selector::infinigen, 5792) == 4096);
  CHECK(length(Selector::infinigen, 5793) == 8192);
  CHECK(length(Selector::infinigen, 100'000) == 8192);
  CHECK(length(Selector::hata, 100'000) == 4096);
  // Gemma has no fit of exact top rows: the other selector's stands in.
  CHECK(nearest_fit(profile("gemma3"), Selector::hata, 1).selector == Selector::infinigen);
}

TEST_CASE("profile files: layers by relative depth") {
  const SelectionSpec spec = profile("smollm2");
  const SelectionFit& fit = nearest_fit(spec, Selector::infinigen, 4096);
  const auto measured = [&](std::int64_t layer, std::int64_t layers) {
    const LayerSelection& found = layer_at_depth(fit, 30, layer, layers);
    return fit.layer_index[static_cast<std::size_t>(&found - fit.layers.data())];
  };
  for (std::int64_t l = 2; l < 30; ++l) CHECK(measured(l, 30) == l);
  CHECK(measured(0, 30) == 2);  // nearest measured one
  // (l + 1/2) 30/32 - 1/2: 2 -> 1.84, 16 -> 14.97, 31 -> 29.03.
  CHECK(measured(2, 32) == 2);
  CHECK(measured(16, 32) == 15);
  CHECK(measured(31, 32) == 29);
  CHECK(measured(0, 1) == 14);  // the middle; of 14 and 15 (14.5) the first
}

TEST_CASE("profile files: where a model's selection comes from") {
  const SelectionSpec spec = profile("smollm2");
  const auto known = selection_source(spec, Selector::infinigen, "smollm2-135m_instruct");
  CHECK(known.text == spec.source);
  CHECK(known.source_class == Source::measured);
  const auto other = selection_source(spec, Selector::infinigen, "Llama-3.1-8B");
  CHECK(other.source_class == Source::assumed);
  CHECK(other.text.rfind("assumed from smollm2", 0) == 0);
  CHECK(selection_source(spec, Selector::hata, "smollm2").source_class == Source::assumed);
}

TEST_CASE("profile files: what is refused, with its place") {
  CHECK(error_of(kFile).empty());
  CHECK(has(error_of(changed("w_ar: 0.2", "w_ar: 0.3")), "add up to 1.1"));
  CHECK(has(error_of(changed("w_ar: 0.2", "w_ar: 0.3")), "x.yaml:12:"));
  CHECK(has(error_of(changed("layer: 2", "layer: 4")), "layer 4"));
  CHECK(has(error_of(kFile + kLayer), "ascending"));
  CHECK(has(error_of(kFile + kFit), "a second time"));
  CHECK(has(error_of(changed("n: 5 %", "n: 5")), "x.yaml:12:"));
  CHECK(has(error_of(changed("n: 5 %", "n: 120 %")), "x.yaml:12:"));
  CHECK(has(error_of(changed("a0: 10", "a0: 0")), "x.yaml:12:"));
  CHECK(has(error_of(changed("rho: 0.9, ", "")), "rho"));
  CHECK(has(error_of(changed("sigma_n", "sigma_m")), "sigma_n"));
  CHECK(has(error_of(changed("selector: infinigen", "selector: infinigen2")), "infinigen"));
  CHECK(has(error_of(changed("fits:\n" + kFit, "fits: []\n")), "x.yaml:6"));
}
