// A factor a kernel class multiplies that class's times and no other.

#include <doctest/doctest.h>

#include <set>

#include "sim/gpu/cost_model.h"
#include "tests/unit/gpu_support.h"

using namespace kvlane;
using test::round_gpu;
using test::round_model;
using test::time_of;

namespace {

Work work(WorkKind kind) {
  Work w;
  w.kind = kind;
  w.layer = LayerId(std::size_t{0});
  return w;
}

struct Expectation {
  const char* name;
  Work work;
  std::set<KernelClass> classes;  // that its time is made of
};

std::vector<Expectation> expectations() {
  using enum KernelClass;
  std::vector<Expectation> all;
  Work w = work(WorkKind::prefill_layer);
  w.new_tokens = w.context_tokens = 500;
  all.push_back({"prefill", w, {gemm, prefill_attention, small, collective}});
  w.context_tokens = 4000;
  all.push_back({"cached prefix", w, {gemm, prefix_attention, small, collective}});
  w = work(WorkKind::prefill_head);
  w.batch = 1;
  all.push_back({"head", w, {gemm, small, collective}});
  w = work(WorkKind::build_metadata);
  w.new_tokens = 500;
  w.selector_bytes = 40;
  all.push_back({"metadata", w, {selection}});
  w = work(WorkKind::quantise);
  w.elements = 100'000;
  w.kv_bits = 2;
  all.push_back({"quantise", w, {quantise}});
  w = work(WorkKind::decode_qkv);
  w.batch = 6;
  all.push_back({"QKV", w, {gemm, small}});
  w.kind = WorkKind::decode_ffn;
  all.push_back({"FFN", w, {gemm, small, collective}});
  w.kind = WorkKind::select;
  w.context_tokens = 6000;
  w.selector_bytes = 40;
  all.push_back({"select", w, {selection}});
  w.kind = WorkKind::decode_attention;
  w.attended_rows = 12'000;
  all.push_back({"decode", w, {decode_attention}});
  all.push_back({"host", work(WorkKind::host_step), {host}});
  return all;
}

CostModel with(KernelClass kernel, double factor) {
  KernelFactors factors = kNoFactors;
  factors[static_cast<std::size_t>(kernel)] = factor;
  return {round_gpu(), round_model(), 2, false, nullptr, factors};
}

}  // namespace

TEST_CASE("factors: the parts of a time that its classes move make the whole time") {
  const CostModel plain(round_gpu(), round_model(), 2, false);
  for (const Expectation& e : expectations()) {
    CAPTURE(e.name);
    const double base = time_of(plain, e.work);
    CHECK(base > 0);
    double sum = 0;
    std::set<KernelClass> moved;
    for (std::size_t k = 0; k < kKernelClasses; ++k) {
      const auto kernel = static_cast<KernelClass>(k);
      // With the factor 3, a part p of the time becomes 3 p: the time grows by 2 p.
      const double part = (time_of(with(kernel, 3), e.work) - base) / 2;
      CHECK(part >= 0);
      if (part > 1e-12) moved.insert(kernel);
      sum += part;
    }
    const bool as_expected = moved == e.classes;
    CHECK(as_expected);
    CHECK(sum / base == doctest::Approx(1).epsilon(1e-6));  // times are whole picoseconds
  }
}

TEST_CASE("factors: of one they leave the picoseconds alone; classes that were used are known") {
  const CostModel plain(round_gpu(), round_model(), 2, false);
  const CostModel ones(round_gpu(), round_model(), 2, false, nullptr, kNoFactors);
  for (const Expectation& e : expectations()) {
    CAPTURE(e.name);
    const CostModel fresh(round_gpu(), round_model(), 2, false);
    CHECK(ones.duration(e.work) == plain.duration(e.work));
    fresh.duration(e.work);
    for (std::size_t k = 0; k < kKernelClasses; ++k) {
      const auto kernel = static_cast<KernelClass>(k);
      CHECK(fresh.usage().used(kernel) == e.classes.contains(kernel));
    }
  }
}

TEST_CASE("factors: experts belong to the matrices") {
  ModelSpec model = round_model();
  for (LayerSpec& layer : model.layers) {
    layer.ffn_experts = 8;
    layer.ffn_experts_per_token = 2;
    layer.ffn_parameters *= 8;
    layer.ffn_active_parameters *= 2;
  }
  KernelFactors gemm_twice = kNoFactors;
  gemm_twice[static_cast<std::size_t>(KernelClass::gemm)] = 2;
  Work w = work(WorkKind::decode_ffn);
  w.batch = 6;
  // Launches and collectives aside, matrices are all of it: others is a share of zero here.
  const double launches = 3 * round_gpu().small_kernel_t0;
  const double once = time_of(CostModel(round_gpu(), model, 1, false), w) - launches;
  const double twice =
      time_of(CostModel(round_gpu(), model, 1, false, nullptr, gemm_twice), w) - launches;
  CHECK(twice / once == doctest::Approx(2).epsilon(1e-6));
}
