// Monotony of the cost model over random shapes, on every GPU file that ships.

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "sim/gpu/cost_model.h"
#include "sim/scenario/gpu_file.h"
#include "sim/scenario/model_file.h"

using namespace kvlane;

namespace {

template <class T>
T read_file(T (*read)(std::string_view, const std::string&), const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE_MESSAGE(file.good(), path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return read(text, path);
}

std::vector<GpuSpec> gpus() {
  std::vector<GpuSpec> result;
  for (const char* name :
       {"l20", "l4", "l40s", "a10", "a100-40-pcie", "a100-40-sxm", "a100-80-pcie", "a100-80-sxm",
        "v100s", "h20", "h100", "h100-pcie", "h200"}) {
    result.push_back(read_file(read_gpu, std::string("scenarios/hardware/") + name + ".yaml"));
    for (auto& [ranks, cost] : result.back().all_reduce) cost = {0, 1e30};  // compute alone
  }
  return result;
}

const std::vector<CostModel>& models(int tp) {
  static const auto build = [](int degree) {
    std::vector<CostModel> result;
    for (const char* name : {"llama-3.1-8b", "gemma-3-12b", "qwen3-0.6b"}) {
      const auto model = read_file(read_model, std::string("scenarios/models/") + name + ".yaml");
      for (const GpuSpec& gpu : gpus()) result.emplace_back(gpu, model, degree, false);
    }
    return result;
  };
  static const std::vector<CostModel> one = build(1);
  static const std::vector<CostModel> two = build(2);
  return tp == 1 ? one : two;
}

// Any kind of work, and the same with one of its sizes made larger.
struct Pair {
  Work small, large;
};

Pair draw(std::size_t layers) {
  Pair pair;
  Work& w = pair.small;
  w.kind = *rc::gen::element(WorkKind::prefill_layer, WorkKind::build_metadata, WorkKind::quantise,
                             WorkKind::decode_qkv, WorkKind::select, WorkKind::decode_attention,
                             WorkKind::decode_ffn, WorkKind::decode_head);
  w.layer = LayerId(*rc::gen::inRange<std::size_t>(0, layers));
  const bool prefill = w.kind == WorkKind::prefill_layer;  // of one prompt
  w.batch = prefill ? 1 : *rc::gen::inRange<std::int64_t>(1, 300);
  w.new_tokens = *rc::gen::inRange<std::int64_t>(1, 20'000);
  w.context_tokens = w.new_tokens + *rc::gen::inRange<std::int64_t>(0, 20'000);
  w.attended_rows = *rc::gen::inRange<std::int64_t>(0, 2'000'000);
  w.elements = *rc::gen::inRange<std::int64_t>(0, 100'000'000);
  w.kv_bits = *rc::gen::element(16, 8, 4, 2);
  w.selector_bytes = *rc::gen::element(18, 64);
  w.hashed = w.selector_bytes == 18;
  pair.large = w;
  const auto more = *rc::gen::inRange<std::int64_t>(1, 5000);
  switch (*rc::gen::inRange(0, 5)) {
    case 0:
      pair.large.batch += prefill ? 0 : more;
      pair.large.attended_rows += more;
      break;
    case 1:  // more new tokens, the cached ones stay
      pair.large.new_tokens += more;
      pair.large.context_tokens += more;
      break;
    case 2:
      pair.large.context_tokens += more;
      break;
    case 3:
      pair.large.attended_rows += more;
      break;
    default:
      pair.large.elements += more;
      break;
  }
  return pair;
}

}  // namespace

TEST_CASE("cost model: more work is never faster") {
  CHECK(rc::check("monotone", [] {
    const auto& all = models(1);
    const CostModel& cost = all[*rc::gen::inRange<std::size_t>(0, all.size())];
    const Pair pair = draw(cost.model().layers.size());
    RC_ASSERT(cost.duration(pair.small) <= cost.duration(pair.large));
  }));
}

TEST_CASE("cost model: two ranks are not slower than one, collectives aside") {
  CHECK(rc::check("tp", [] {
    const auto i = *rc::gen::inRange<std::size_t>(0, models(1).size());
    const CostModel& one = models(1)[i];
    const CostModel& two = models(2)[i];
    const Pair pair = draw(one.model().layers.size());
    // A picosecond a collective: all_reduce of zero cost still rounds up once.
    RC_ASSERT(two.duration(pair.large) <= one.duration(pair.large) + Duration(1));
  }));
}

TEST_CASE("cost model: nothing beats the roofline of the datasheet") {
  CHECK(rc::check("roofline", [] {
    const auto& all = models(1);
    const CostModel& cost = all[*rc::gen::inRange<std::size_t>(0, all.size())];
    const auto m = *rc::gen::inRange<std::int64_t>(1, 10'000);
    const auto n = *rc::gen::inRange<std::int64_t>(1, 10'000);
    const auto k = *rc::gen::inRange<std::int64_t>(1, 10'000);
    const double t = cost.gemm(m, n, k);
    const double flops =
        2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
    RC_ASSERT(t >= flops / cost.gpu().peak_flops);
    RC_ASSERT(t >=
              2.0 * static_cast<double>(n) * static_cast<double>(k) / cost.gpu().memory_bandwidth);
  }));
}
