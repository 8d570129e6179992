// Generated demand: what the views of one text have to do with each other, closed forms of special
// processes, determinism.
#include <doctest/doctest.h>

#include <cmath>
#include <numbers>
#include <numeric>

#include "select_support.h"
#include "sim/select/generator.h"

using namespace kvlane;
using select_test::model;

namespace {

// A measured model of one selecting layer.
SelectionSpec one_layer(const LayerSelection& layer, double head_correlation) {
  SelectionSpec spec;
  spec.name = "test";
  spec.measured_layers = 1;
  SelectionFit fit;
  fit.prompt_tokens = 4096;
  fit.head_correlation = head_correlation;
  fit.layer_index = {0};
  fit.layers = {layer};
  spec.fits = {fit};
  return spec;
}

LayerSelection process(double w_static, double w_ar, double w_noise, double rho) {
  LayerSelection layer;
  layer.n = 0.1;
  layer.g = 0;  // no recency: every row alike
  layer.a0 = 10;
  layer.w_static = w_static;
  layer.w_ar = w_ar;
  layer.w_noise = w_noise;
  layer.rho = rho;
  layer.mass = 0.8;
  return layer;
}

template <class T>
std::int64_t sum(std::span<T> v) {
  return std::accumulate(v.begin(), v.end(), std::int64_t{0});
}
std::int64_t first_rows(const Demand& demand, std::size_t layer, std::int64_t step) {
  std::int64_t rows = 0;
  for (const BlockCount& b : demand.first_selected(layer, step)) rows += b.rows;
  return rows;
}

}  // namespace

TEST_CASE("generated demand: all views are of the same rows") {
  const SelectionSpec spec = select_test::profile("smollm2");
  struct Shape {
    std::int64_t tokens, heads, steps;
    SelectCount count;
  };
  for (const Shape& shape :
       {Shape{4096, 3, 64, SelectCount::threshold}, Shape{5000, 8, 64, SelectCount::cap},
        Shape{700, 1, 150, SelectCount::cap}, Shape{30, 2, 5, SelectCount::threshold},
        Shape{3000, 40, 64, SelectCount::cap}, Shape{1, 1, 1, SelectCount::cap}}) {
    CAPTURE(shape.tokens);
    const KvLayout layout(model(6, shape.heads), shape.tokens, 128, 2, false);
    DemandSpec wanted;
    wanted.count = shape.count;
    wanted.steps = shape.steps;
    wanted.request = 3;
    const auto demand = generate_demand(spec, layout, wanted);
    CHECK(demand->steps() == shape.steps);
    CHECK_FALSE(demand->selects(1));
    CHECK(demand->selected(1, 0) == 0);
    CHECK(demand->counts(0, 0).empty());
    for (std::size_t l = 2; l < 6; ++l) {
      REQUIRE(demand->selects(l));
      std::vector<std::uint32_t> totals(static_cast<std::size_t>(demand->block_count()));
      std::vector<std::uint32_t> born(totals.size());
      for (std::int64_t s = 0; s < shape.steps; ++s) {
        const auto counts = demand->counts(l, s);
        REQUIRE(sum(counts) == demand->selected(l, s));
        CHECK(demand->attended(l, s) >= demand->selected(l, s));
        std::int64_t last = -1;
        for (const BlockCount& b : demand->first_selected(l, s)) {
          CHECK(b.block > last);
          last = b.block;
          CHECK(b.rows > 0);
          CHECK(b.rows <= counts[b.block]);  // born rows are selected
          if (s == 0) CHECK(b.rows == counts[b.block]);
          born[b.block] += b.rows;
        }
        if (s == 0) CHECK(first_rows(*demand, l, 0) == demand->selected(l, 0));
        for (std::size_t m = 0; m < totals.size(); ++m) totals[m] += counts[m];
        // The sinks are selected at every step.
        const std::int64_t sinks =
            std::min<std::int64_t>({4, layout.tokens_per_block(), shape.tokens});
        CHECK(counts[0] >= sinks * shape.heads);
      }
      CHECK(std::equal(totals.begin(), totals.end(), demand->totals(l).begin()));
      for (std::size_t m = 0; m < totals.size(); ++m) {
        CHECK(born[m] <= layout.block_tokens(l, static_cast<std::int64_t>(m)) * shape.heads);
      }
      CHECK(demand->own_queries(l).size() == totals.size());
    }
  }
}

TEST_CASE("generated demand: events and totals against the rows themselves") {
  const SelectionSpec spec = select_test::profile("smollm2");
  const KvLayout layout(model(30, 3), 4096, 1024, 2, false);
  DemandSpec wanted;
  wanted.count = SelectCount::threshold;
  wanted.request = 1;
  const auto demand = generate_demand(spec, layout, wanted);
  const SelectionFit& fit = nearest_fit(spec, Selector::infinigen, 4096);
  for (const std::size_t l : {2U, 13U, 29U}) {
    const select::LayerText text(fit.layers[l - 2], fit.head_correlation, layout, wanted, 3,
                                 select::request_stream(1, static_cast<std::int64_t>(l)));
    const auto library = text.decode_library();
    select_test::RowVisitor rows(library);
    text.decode_scan(library).run(rows);
    std::vector<std::int64_t> selected(64), first(64), generated(64);
    for (const std::uint64_t life : rows.prompt) {
      for (int s = 0; s < 64; ++s) {
        if (((life >> s) & 1U) == 0) continue;
        ++selected[static_cast<std::size_t>(s)];
        if ((life & ((std::uint64_t{1} << s) - 1)) == 0) ++first[static_cast<std::size_t>(s)];
      }
    }
    for (const std::uint64_t life : rows.decoded) {
      for (std::size_t s = 0; s < 64; ++s)
        generated[s] += static_cast<std::int64_t>((life >> s) & 1U);
    }
    for (std::int64_t s = 0; s < 64; ++s) {
      const auto i = static_cast<std::size_t>(s);
      CHECK(demand->selected(l, s) == selected[i]);
      CHECK(demand->attended(l, s) == selected[i] + generated[i]);
      CHECK(first_rows(*demand, l, s) == first[i]);
    }
  }
}

TEST_CASE("generated demand: a cap is kept in the mean") {
  const KvLayout layout(model(32, 8), 10'240, 1024, 2, false);
  DemandSpec wanted;
  const auto demand = generate_demand(select_test::profile("smollm2"), layout, wanted);
  double wanted_rows = 0, attended = 0;
  for (std::size_t l = 2; l < 32; ++l) {
    for (std::int64_t s = 0; s < 64; ++s) {
      wanted_rows += 8 * std::floor(0.2 * double(10'240 + s + 1));
      attended += double(demand->attended(l, s));
    }
  }
  CHECK(attended == doctest::Approx(wanted_rows).epsilon(0.01));
}

TEST_CASE("generated demand: pure noise is selected anew at every step") {
  // Without recency and memory a row is selected with p = 0.2 at each step, so the rows first
  // selected at step s are p (1 - p)^s of all. All rows stand at one level here, the worst case for
  // a library of 256 paths: a layer scatters by 1 / sqrt(256 * 0.2 * 0.8^s), 40 layers by a sixth
  // of that (2 to 5 %).
  const std::int64_t tokens = 2000, layers = 40;
  const KvLayout layout(model(layers, 8), tokens, 100, 0, false);
  const auto demand = generate_demand(one_layer(process(0, 0, 1, 0), 0.5), layout, DemandSpec{});
  std::vector<std::int64_t> first(8);
  std::int64_t own = 0;
  for (std::size_t l = 0; l < layers; ++l) {
    for (std::int64_t s = 0; s < 8; ++s)
      first[static_cast<std::size_t>(s)] += first_rows(*demand, l, s);
    own += sum(demand->own_queries(l));
  }
  for (std::size_t s = 0; s < 8; ++s) {
    const double expected = 0.2 * std::pow(0.8, double(s)) * 8 * double(tokens * layers);
    CHECK(double(first[s]) == doctest::Approx(expected).epsilon(0.12));
  }
  CHECK(double(own) == doctest::Approx(32 * 0.2 * 8 * double(tokens * layers)).epsilon(0.03));
}

TEST_CASE("generated demand: a static choice never changes") {
  const std::int64_t tokens = 20'000;
  const KvLayout layout(model(1, 8), tokens, 100, 0, false);
  const auto demand = generate_demand(one_layer(process(1, 0, 0, 0), 0.5), layout, DemandSpec{});
  std::int64_t later = 0;
  for (std::int64_t s = 1; s < 64; ++s) later += first_rows(*demand, 0, s);
  // The cap grows with the length, by 64 * 0.2 rows a head; nothing else is new.
  CHECK(double(demand->selected(0, 0)) == doctest::Approx(0.2 * 8 * double(tokens)).epsilon(0.02));
  CHECK(later < demand->selected(0, 0) / 50);
  // The prompt's own queries have chosen the same rows, those near the threshold apart.
  CHECK(double(sum(demand->own_queries(0))) ==
        doctest::Approx(32.0 * double(demand->selected(0, 0))).epsilon(0.01));
  const auto own = demand->own_queries(0);
  const auto first = demand->counts(0, 0);
  for (std::size_t m = 0; m < own.size(); ++m) {
    CHECK(double(own[m]) == doctest::Approx(32.0 * first[m]).epsilon(0.12));
  }
}

TEST_CASE("generated demand: AR(1) rows are selected again as an orthant probability says") {
  // At p = 1/2 two normal values of correlation r are both positive with 1/4 + asin(r) / 2 pi.
  const std::int64_t tokens = 20'000;
  const KvLayout layout(model(1, 4), tokens, 100, 0, false);
  DemandSpec wanted;
  wanted.cap = 0.5;
  const LayerSelection layer = process(0, 1, 0, 0.9);
  const select::LayerText text(layer, 0, layout, wanted, 4, "t");
  const auto library = text.decode_library();
  select_test::RowVisitor rows(library);
  text.decode_scan(library).run(rows);
  for (const int lag : {1, 5, 20}) {
    double both = 0;
    for (const std::uint64_t life : rows.prompt) both += std::popcount(life & (life >> lag));
    const double expected = 0.25 + std::asin(std::pow(0.9, lag)) / (2 * std::numbers::pi);
    CHECK(both / 4 / double(tokens) / (64 - lag) == doctest::Approx(expected).epsilon(0.05));
  }
}

TEST_CASE("generated demand: affinity that all heads share selects whole tokens") {
  const KvLayout layout(model(1, 8), 4096, 4096, 0, false);
  const auto together = generate_demand(one_layer(process(1, 0, 0, 0), 1), layout, DemandSpec{});
  for (const std::uint32_t rows : together->counts(0, 3)) CHECK(rows % 8 == 0);
  const auto apart = generate_demand(one_layer(process(1, 0, 0, 0), 0), layout, DemandSpec{});
  int whole = 0;
  for (const std::uint32_t rows : apart->counts(0, 3)) whole += rows == 8 ? 1 : 0;
  CHECK(whole < 20);  // the sinks, and 4096 * 0.2^8 = 0.01
}

TEST_CASE("generated demand: seeds, requests and profile texts are streams of their own") {
  const SelectionSpec spec = select_test::profile("smollm2");
  const KvLayout layout(model(8, 2), 2000, 500, 2, false);
  DemandSpec wanted;
  const auto totals = [&](const DemandSpec& d) {
    const auto demand = generate_demand(spec, layout, d);
    const auto t = demand->totals(4);
    return std::vector<std::uint32_t>(t.begin(), t.end());
  };
  const auto first = totals(wanted);
  CHECK(totals(wanted) == first);
  DemandSpec other = wanted;
  other.request = 1;
  CHECK(totals(other) != first);
  other = wanted;
  other.seed = 2;
  CHECK(totals(other) != first);

  const auto profile = generate_profile(spec, layout, wanted, 3);
  CHECK(profile.blocks == 500);
  CHECK(profile.weight[1].empty());
  REQUIRE(profile.weight[4].size() == 500);
  other = wanted;
  other.request = 7;
  CHECK(generate_profile(spec, layout, other, 3).weight == profile.weight);
  CHECK(generate_profile(spec, layout, wanted, 1).weight[4] !=
        std::vector<float>(first.begin(), first.end()));
}

TEST_CASE("generated demand: attention mass is a lower bound under a cap") {
  const KvLayout layout(model(1, 2), 4096, 64, 0, false);
  const SelectionSpec spec = one_layer(process(0.5, 0.3, 0.2, 0.9), 0.5);  // n = 0.1, mass 0.8
  DemandSpec wanted;
  const auto mass = [&](SelectCount count, double cap) {
    wanted.count = count;
    wanted.cap = cap;
    return generate_demand(spec, layout, wanted)->attention_mass();
  };
  CHECK(mass(SelectCount::threshold, 0.2) == doctest::Approx(0.8));
  CHECK(mass(SelectCount::cap, 0.2) == doctest::Approx(0.8));
  CHECK(mass(SelectCount::cap, 0.05) ==
        doctest::Approx(0.4));  // concave: half the rows, half at least
}

TEST_CASE("generated demand: the same bytes on every compiler") {
  // FNV-1a over every event and sum of a small demand; the value was printed by g++ 12 -O3 and was
  // the same with g++ -O1 and clang 14 -O1. It changes when the draws change, and only then.
  const KvLayout layout(model(8, 3), 3000, 300, 2, false);
  DemandSpec wanted;
  wanted.count = SelectCount::threshold;
  const auto demand = generate_demand(select_test::profile("smollm2"), layout, wanted);
  std::uint64_t hash = fnv1a("");
  const auto mix = [&](std::int64_t v) {
    for (int i = 0; i < 8; ++i) {
      const char byte = static_cast<char>((v >> (8 * i)) & 255);
      hash = fnv1a({&byte, 1}, hash);
    }
  };
  for (std::size_t l = 2; l < 8; ++l) {
    for (std::int64_t s = 0; s < 64; ++s) {
      mix(demand->attended(l, s));
      mix(demand->selected(l, s));
      for (const BlockCount& b : demand->first_selected(l, s)) {
        mix(b.block);
        mix(b.rows);
      }
    }
    for (const std::uint32_t own : demand->own_queries(l)) mix(own);
  }
  CHECK(hash == 14722560236362142628ULL);
}
