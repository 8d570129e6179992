// The generator against the reference: tests/fixtures/selection/reference.csv holds what an
// independent program (analysis/selection_reference.py, numpy, every row of every step drawn and
// the n largest taken) reaches with the same per-layer parameters, and what was measured.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <numeric>
#include <set>

#include "select_support.h"
#include "sim/select/generator.h"
#include "sim/select/step_counter.h"

using namespace kvlane;
using select::StepCounter;

namespace {

constexpr std::int64_t kBlocks = 1024;
constexpr std::int64_t kSteps = 64;
constexpr int kParts[][2] = {{0, 1}, {1, 8}, {8, 16}, {16, 24}, {24, 28}, {28, 31}, {31, 32}};
constexpr const char* kPartNames[] = {"part0",  "p1_8",   "p8_16", "p16_24",
                                      "p24_28", "p28_31", "p31"};

using Statistics = std::map<std::string, double>;

struct Case {
  const char* name;
  const char* profile;
  Selector selector;
  std::int64_t tokens;
  ModelSpec model;
  std::int64_t layers_in_budget, dense;
  int texts;
};

void add(Statistics& to, const std::string& key, double value, double share) {
  to[key] += value * share;
}

// Statistics of the rows of one layer and text; `share` is its weight in the mean.
void add_row_statistics(Statistics& out, const select::LayerText& text, double share) {
  const select::LifeLibrary library = text.decode_library();
  select_test::RowVisitor rows(library);
  text.decode_scan(library).run(rows);
  const auto heads = static_cast<std::size_t>(text.heads());
  const auto tokens = static_cast<double>(text.grid().prompt_tokens);

  // Jaccard: mean over heads and steps of |both| / |either|.
  for (const int lag : {1, 2, 5, 10, 20, 40}) {
    double sum = 0;
    for (std::size_t h = 0; h < heads; ++h) {
      StepCounter both(1), either(1);
      for (std::size_t i = h; i < rows.prompt.size(); i += heads) {
        const std::uint64_t life = rows.prompt[i], later = life >> lag;
        const std::uint64_t b = life & later, e = life | later;
        both.add(&b);
        either.add(&e);
      }
      std::array<std::uint32_t, kSteps> nb{}, ne{};
      both.drain([&](std::size_t s, std::uint32_t n) { nb[s] = n; });
      either.drain([&](std::size_t s, std::uint32_t n) { ne[s] = n; });
      for (std::size_t s = 0; s < kSteps - static_cast<std::size_t>(lag); ++s)
        sum += double{1} * nb[s] / std::max(1U, ne[s]);
    }
    add(out, "jaccard_" + std::to_string(lag), sum / double(heads) / double(kSteps - lag), share);
  }
  // Union growth, and all selections by place.
  std::vector<double> born(kSteps + 1);
  double all = 0;
  for (const std::uint64_t life : rows.prompt) {
    born[static_cast<std::size_t>(std::countr_zero(life))] += 1;
    all += std::popcount(life);
  }
  double seen = 0;
  for (std::size_t s = 0; s < kSteps; ++s) {
    seen += born[s];
    for (const std::size_t at : {1U, 5U, 10U, 20U, 64U}) {
      if (s + 1 == at) {
        add(out, "union_" + std::to_string(at), seen / double(heads) / tokens, share);
      }
    }
  }
  add(out, "rows", all / double(kSteps) / double(heads) / tokens, share);
  double generated = 0;
  for (const std::uint64_t life : rows.decoded) generated += std::popcount(life);
  add(out, "generated", generated / (all + generated), share);
  std::vector<double> place(32);
  for (std::size_t m = 0; m < rows.block_begin.size(); ++m) {
    const std::size_t end =
        m + 1 < rows.block_begin.size() ? rows.block_begin[m + 1] : rows.prompt.size();
    for (std::size_t i = rows.block_begin[m]; i < end; ++i) {
      place[m / (kBlocks / 32)] += std::popcount(rows.prompt[i]);
    }
  }
  for (std::size_t p = 0; p < std::size(kParts); ++p) {
    const double part =
        std::accumulate(place.begin() + kParts[p][0], place.begin() + kParts[p][1], 0.0);
    add(out, std::string("position_") + kPartNames[p], part / all, share);
  }
}

using Matrix = std::vector<double>;  // [selecting layer][block]

// Block numbers of the `count` largest; ties by a pseudorandom order, as in the reference.
std::vector<bool> top(const Matrix& score, std::int64_t count) {
  std::vector<std::size_t> order(score.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::vector<std::uint64_t> tie(score.size());
  Rng rng(3, "ties");
  for (auto& t : tie) t = rng();
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return score[a] != score[b] ? score[a] > score[b] : tie[a] < tie[b];
  });
  std::vector<bool> mask(score.size());
  for (std::int64_t i = 0; i < count; ++i) mask[order[static_cast<std::size_t>(i)]] = true;
  return mask;
}

Matrix normalised(Matrix m) {
  const double sum = std::accumulate(m.begin(), m.end(), 0.0);
  for (double& v : m) v /= sum;
  return m;
}

double spearman(const Matrix& a, const Matrix& b) {
  const auto ranks = [](const Matrix& v) {
    std::vector<std::size_t> order(v.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(),
              [&](std::size_t x, std::size_t y) { return v[x] < v[y]; });
    Matrix rank(v.size());
    for (std::size_t i = 0; i < order.size();) {
      std::size_t j = i;
      while (j < order.size() && v[order[j]] == v[order[i]]) ++j;
      for (std::size_t k = i; k < j; ++k) rank[order[k]] = double(i + j - 1) / 2;
      i = j;
    }
    return rank;
  };
  const Matrix ra = ranks(a), rb = ranks(b);
  const double mean = double(a.size() - 1) / 2;
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < ra.size(); ++i) {
    ab += (ra[i] - mean) * (rb[i] - mean);
    aa += (ra[i] - mean) * (ra[i] - mean);
    bb += (rb[i] - mean) * (rb[i] - mean);
  }
  return ab / std::sqrt(aa * bb);
}

std::map<std::string, std::vector<bool>> pushed(const Matrix& profile, const Matrix& own_past,
                                                const Matrix& oracle, std::int64_t budget,
                                                std::int64_t tokens_per_block) {
  const std::size_t cells = profile.size(), layers = cells / kBlocks;
  std::map<std::string, std::vector<bool>> masks;
  masks["profile"] = top(profile, budget);
  std::vector<bool> totals(cells);
  Matrix recent(cells), sequential(cells), tokens(cells), random(cells), both(cells);
  const Matrix past = normalised(own_past), mean = normalised(profile);
  Rng rng(4, "random");
  for (std::size_t l = 0; l < layers; ++l) {
    std::size_t count = 0;
    for (std::size_t m = 0; m < kBlocks; ++m) count += masks["profile"][l * kBlocks + m] ? 1U : 0U;
    for (std::size_t m = 0; m < kBlocks; ++m) {
      const std::size_t i = l * kBlocks + m;
      totals[i] = count > 0 && (m == 0 || m >= kBlocks - (count - 1));
      const bool sink =
          m < static_cast<std::size_t>(std::max<std::int64_t>(1, 4 / tokens_per_block));
      recent[i] = sink ? 1e9 : double(m);
      sequential[i] = -double(i);
      tokens[i] = -double(m);
      random[i] = rng.uniform();
      both[i] = past[i] + mean[i];
    }
  }
  masks["layer_totals_recency"] = totals;
  masks["recency"] = top(recent, budget);
  masks["sequential"] = top(sequential, budget);
  masks["sequential_tokens"] = top(tokens, budget);
  masks["random"] = top(random, budget);
  masks["own_queries"] = top(own_past, budget);
  masks["own_queries_profile"] = top(both, budget);
  masks["oracle"] = top(oracle, budget);
  return masks;
}

Statistics run(const Case& c) {
  const SelectionSpec spec = select_test::profile(c.profile);
  const KvLayout layout(c.model, c.tokens, kBlocks, static_cast<int>(c.dense), false);
  DemandSpec wanted;
  wanted.selector = c.selector;
  wanted.count = SelectCount::threshold;
  wanted.seed = 11;
  Statistics out;

  std::vector<std::size_t> layers;
  const SelectionFit& fit = nearest_fit(spec, c.selector, c.tokens);
  for (std::size_t l = 0; l < c.model.layers.size(); ++l) {
    if (select::layer_selects(layout.layer(l))) layers.push_back(l);
  }
  REQUIRE(layers.size() == fit.layers.size());

  const auto profile_file = generate_profile(spec, layout, wanted, c.texts - 1);
  Matrix profile;
  for (const std::size_t l : layers) {
    profile.insert(profile.end(), profile_file.weight[l].begin(), profile_file.weight[l].end());
  }
  std::vector<Matrix> oracles;
  for (int t = 0; t < c.texts; ++t) {
    wanted.request = static_cast<std::uint32_t>(t);
    const auto demand = generate_demand(spec, layout, wanted);
    Matrix past, oracle;
    for (const std::size_t l : layers) {
      const auto& parameters = layer_at_depth(fit, spec.measured_layers,
                                              static_cast<std::int64_t>(l), layout.layer_count());
      const select::LayerText text(
          parameters, fit.head_correlation, layout, wanted, layout.layer(l).kv_heads,
          select::request_stream(wanted.request, static_cast<std::int64_t>(l)));
      add_row_statistics(out, text, 1.0 / c.texts / double(layers.size()));
      past.insert(past.end(), demand->own_queries(l).begin(), demand->own_queries(l).end());
      oracle.insert(oracle.end(), demand->totals(l).begin(), demand->totals(l).end());
    }
    for (const int percent : {15, 25}) {
      const std::int64_t budget = percent * c.layers_in_budget * kBlocks / 100 - c.dense * kBlocks;
      for (const auto& [policy, mask] :
           pushed(profile, past, oracle, budget, layout.tokens_per_block())) {
        double all = 0, remote = 0, fresh_remote = 0;
        Statistics value;
        for (const auto& [first, last] : {std::pair{1, 1}, {2, 5}, {6, 20}, {21, 64}}) {
          double selected = 0, fresh = 0;
          for (std::int64_t s = first - 1; s < last; ++s) {
            for (std::size_t i = 0; i < layers.size(); ++i) {
              selected += double(demand->selected(layers[i], s));
              for (const BlockCount& b : demand->first_selected(layers[i], s)) {
                if (!mask[i * kBlocks + b.block]) fresh += b.rows;
              }
            }
          }
          value["_kept_" + std::to_string(first) + "_" + std::to_string(last)] = fresh / selected;
          all += selected;
          fresh_remote += fresh;
        }
        for (std::size_t i = 0; i < oracle.size(); ++i) remote += mask[i] ? 0 : oracle[i];
        value["_static"] = remote / all;
        value["_kept"] = fresh_remote / all;
        for (const auto& [key, number] : value) {
          add(out, "ondemand_" + std::to_string(percent) + "_" + policy + key, number,
              1.0 / c.texts);
        }
      }
    }
    if (t < 9) oracles.push_back(std::move(oracle));
  }
  int pairs = 0;
  for (std::size_t a = 0; a < oracles.size(); ++a) pairs += static_cast<int>(a);
  for (std::size_t a = 0; a < oracles.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      add(out, "spearman", spearman(oracles[a], oracles[b]), 1.0 / pairs);
    }
  }
  return out;
}

struct Expected {
  double reference = 0;
  std::string measured;
};
std::map<std::string, Expected> expected_of(const std::string& name) {
  std::map<std::string, Expected> rows;
  std::istringstream in(select_test::file_text("tests/fixtures/selection/reference.csv"));
  for (std::string line; std::getline(in, line);) {
    std::istringstream fields(line);
    std::string which, statistic, reference, measured;
    std::getline(fields, which, ',');
    std::getline(fields, statistic, ',');
    std::getline(fields, reference, ',');
    std::getline(fields, measured, ',');
    if (which == name) rows[statistic] = {std::stod(reference), measured};
  }
  return rows;
}

void check(const Case& c) {
  const auto expected = expected_of(c.name);
  REQUIRE(expected.size() > 100);
  const Statistics ours = run(c);
  for (const auto& entry : expected) {
    const std::string& key = entry.first;
    const auto& e = entry.second;
    REQUIRE_MESSAGE(ours.count(key) == 1, key);
    const double value = ours.at(key);
    if (std::getenv("KVLANE_PRINT_STATISTICS") != nullptr) {
      std::printf("%s,%s,%.4f,%.4f,%s,%+.1f %%\n", c.name, key.c_str(), value, e.reference,
                  e.measured.c_str(), 100 * (value / e.reference - 1));
    }
    CHECK_MESSAGE(std::abs(value - e.reference) <= 0.15 * e.reference, key, ": ", value,
                  " against ", e.reference);
  }
}

}  // namespace

TEST_CASE("selection statistics: SmolLM2, InfiniGen, 2048 tokens") {
  check({"smollm2_ig_2048", "smollm2", Selector::infinigen, 2048, select_test::model(30, 3), 30, 2,
         9});
}
TEST_CASE("selection statistics: SmolLM2, InfiniGen, 4096 tokens") {
  check({"smollm2_ig_4096", "smollm2", Selector::infinigen, 4096, select_test::model(30, 3), 30, 2,
         9});
}
TEST_CASE("selection statistics: SmolLM2, InfiniGen, 8192 tokens") {
  check({"smollm2_ig_8192", "smollm2", Selector::infinigen, 8192, select_test::model(30, 3), 30, 2,
         9});
}
TEST_CASE("selection statistics: SmolLM2, exact top 20 %, 4096 tokens") {
  check(
      {"smollm2_ex20_4096", "smollm2", Selector::hata, 4096, select_test::model(30, 3), 30, 2, 9});
}
TEST_CASE("selection statistics: Gemma 3, global layers, InfiniGen, 4096 tokens") {
  check({"gemma3_ig_4096", "gemma3", Selector::infinigen, 4096, select_test::gemma3(), 3, 0, 120});
}
