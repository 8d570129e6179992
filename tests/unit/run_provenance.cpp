// The weakest number that a result rests on, sizes beyond the fits, shapes from measured tables.

#include <doctest/doctest.h>

#include <array>
#include <optional>
#include <set>

#include "sim/run/run.h"
#include "tests/support/round_scenario.h"

using namespace kvlane;
using namespace kvlane::literals;
using test::round_scenario;
using test::strategy;

namespace {

// Every number measured, the selection of a model that was measured; one prompt of 1000 tokens.
Scenario measured_scenario() {
  Scenario s = round_scenario(3, 1, 8_Gbps, {0.001, 0.0001, 0.0005});
  s.selection.spec.models = {"round"};
  for (InstanceGroup& group : s.instances) group.nic_source = {{"latency", Source::measured}};
  s.strategies.push_back(strategy(PolicyKind::full, "full"));
  return s;
}

Result run(const Scenario& s) {
  RunOptions options;
  options.verdict = false;
  return run_scenario(s, options);
}

// True where a run that has `key` alone assumed, all else measured, says so.
bool rests_on(Scenario s, const std::string& key) {
  for (InstanceGroup& group : s.instances) {
    group.gpu.source = {{"aaa", Source::measured}, {key, Source::assumed}};
  }
  const Result result = run(s);
  const bool named = result.weakest_constant == "round " + key;
  CHECK(named == (result.weakest_source == "assumed"));
  return named;
}

void set_domain(Scenario& s, KernelClass kernel, std::vector<DomainRange> domain) {
  for (InstanceGroup& group : s.instances) group.gpu.fits[kernel] = {0.05, domain};
}

}  // namespace

TEST_CASE("provenance: full rests on the classes that it uses, and on no other") {
  const Scenario s = measured_scenario();
  for (const char* key : {"gemm_ec", "prefill_w0", "decode_em", "decode_block", "small_kernel_t0",
                          "other_share", "pcie_h2d", "host_step", "peak_flops"}) {
    CAPTURE(key);
    CHECK(rests_on(s, key));
  }
  // No cached prefix, 16-bit weights and KV, one GPU, two query heads a kv head.
  for (const char* key :
       {"prefix_kappa", "gemm_fp8_ec", "peak_fp8_flops", "decode_fp8_em", "all_reduce.2.latency",
        "decode_walk", "mixed_em", "hack_unpack_rate", "kernels.gemm.error", "peak_int8_ops"}) {
    CAPTURE(key);
    CHECK(!rests_on(s, key));
  }
}

TEST_CASE(
    "provenance: a cached prefix, HACK, tensor parallelism and 8 bits bring their constants") {
  Scenario prefix = measured_scenario();
  prefix.prompts[0].prefix_hit = 0.5;
  CHECK(rests_on(prefix, "prefix_kappa"));
  CHECK(!rests_on(prefix, "prefill_w0"));

  Scenario hack = measured_scenario();
  hack.strategies = {strategy(PolicyKind::hack, "hack")};
  CHECK(rests_on(hack, "hack_unpack_rate"));

  Scenario parallel = measured_scenario();
  for (InstanceGroup& group : parallel.instances) {
    group.tp = 2;
    group.gpus = 2;
    group.gpu.all_reduce = {{2, {1e-6, 1e9}}, {4, {1e-6, 1e9}}};
  }
  CHECK(rests_on(parallel, "all_reduce.2.latency"));
  CHECK(!rests_on(parallel, "all_reduce.4.latency"));

  Scenario fp8 = measured_scenario();
  fp8.model.weight_bytes = 1;
  for (InstanceGroup& group : fp8.instances) {
    group.gpu.peak_fp8_flops = 1e40;
    group.gpu.gemm_fp8_ec = group.gpu.gemm_fp8_em = group.gpu.gemm_fp8_p = 1;
  }
  CHECK(rests_on(fp8, "gemm_fp8_ec"));
  CHECK(!rests_on(fp8, "gemm_ec"));

  Scenario unsplit = measured_scenario();
  for (LayerSpec& layer : unsplit.model.layers) layer.query_heads = layer.kv_heads;
  CHECK(rests_on(unsplit, "decode_walk"));
}

TEST_CASE(
    "provenance: the NIC's numbers count, its error does not; the selection where it is used") {
  Scenario nic = measured_scenario();
  nic.instances[1].nic_source = {{"error", Source::assumed}, {"latency", Source::extrapolated}};
  const Result of_nic = run(nic);
  CHECK(of_nic.weakest_source == "extrapolated");
  CHECK(of_nic.weakest_constant == "round latency");

  Scenario unknown = measured_scenario();
  unknown.selection.spec.models = {"another"};
  CHECK(run(unknown).weakest_source == "assumed");
  CHECK(run(unknown).weakest_constant == "selection statistics");
  unknown.strategies = {strategy(PolicyKind::full_dense, "full_dense")};
  CHECK(run(unknown).weakest_source == "measured");
}

TEST_CASE("provenance: the order of trust") {
  Scenario s = measured_scenario();
  const Source order[] = {Source::measured, Source::table, Source::extrapolated, Source::datasheet,
                          Source::assumed};
  for (std::size_t i = 1; i < std::size(order); ++i) {
    s.instances[0].gpu.source = {{"gemm_ec", order[i]}, {"gemm_em", order[i - 1]}};
    CHECK(run(s).weakest_source == to_string(order[i]));
    CHECK(run(s).weakest_constant == "round gemm_ec");
  }
}

TEST_CASE("provenance: a size on the border of the domain is inside, one beyond is not") {
  Scenario s = measured_scenario();
  set_domain(s, KernelClass::prefill_attention, {{"tokens", 1000, 1000}});
  CHECK(run(s).outside_domain.empty());
  CHECK(run(s).warnings.empty());

  set_domain(s, KernelClass::prefill_attention, {{"tokens", 64, 999}});
  const Result above = run(s);
  REQUIRE(above.outside_domain.size() == 1);  // three layers, one row
  CHECK(above.outside_domain[0].gpu == "round");
  CHECK(above.outside_domain[0].kernel == "prefill_attention");
  CHECK(above.outside_domain[0].dimension == "tokens");
  CHECK(above.outside_domain[0].value == 1000);
  CHECK(above.outside_domain[0].low == 64);
  CHECK(above.outside_domain[0].high == 999);
  CHECK(above.warnings ==
        std::vector<std::string>{"round prefill_attention: 1000 tokens, fitted to 64 ... 999: "
                                 "extrapolated"});

  set_domain(s, KernelClass::prefill_attention, {{"tokens", 1001, 2000}});
  REQUIRE(run(s).outside_domain.size() == 1);
  CHECK(run(s).outside_domain[0].value == 1000);
}

TEST_CASE("provenance: the farthest size is named, the dimensions of a kernel in one warning") {
  Scenario s = measured_scenario();
  s.prompts.push_back({1, 3000, 0});
  s.instances[0].count = 2;
  set_domain(s, KernelClass::prefill_attention, {{"tokens", 64, 900}});
  REQUIRE(run(s).outside_domain.size() == 1);
  CHECK(run(s).outside_domain[0].value == 3000);

  // Matrices: m from 1 (a head) to 3000 tokens; n at most 2 x 2000 (up and gate). 1 is 1/500 of
  // the domain's low end, 3000 only 1.5 times its high one.
  set_domain(s, KernelClass::prefill_attention, {});
  set_domain(s, KernelClass::gemm, {{"m", 500, 2000}, {"n", 1, 3999}, {"k", 1, 1e6}});
  const Result result = run(s);
  REQUIRE(result.outside_domain.size() == 2);
  CHECK(result.outside_domain[0].dimension == "m");
  CHECK(result.outside_domain[0].value == 1);
  CHECK(result.outside_domain[1].dimension == "n");
  CHECK(result.outside_domain[1].value == 4000);
  CHECK(result.warnings ==
        std::vector<std::string>{"round gemm: m = 1, fitted to 500 ... 2000; n = 4000, fitted to 1 "
                                 "... 3999: extrapolated"});
}

namespace {

// Covers matrices of a single row; remembers what it was asked.
class OneRow final : public KernelTable {
 public:
  std::optional<double> factor(const KernelShape& shape) const override {
    if (shape.kernel != KernelClass::gemm) return std::nullopt;
    const bool inside = shape.sizes[0] == 1;
    (inside ? within : beyond).insert(shape.sizes);
    return inside ? std::optional(1.0) : std::nullopt;
  }
  mutable std::set<std::array<std::int64_t, 3>> within, beyond;
};

}  // namespace

TEST_CASE("provenance: shapes from a table and by formula are counted once each") {
  const Scenario s = measured_scenario();
  const auto table = std::make_shared<OneRow>();
  RunOptions options;
  options.verdict = false;
  options.tables = {{"round", table}};
  const Result result = run_scenario(s, options);
  REQUIRE(result.from_table.size() == 1);  // other kernels are not in the table at all
  const TableUse& use = result.from_table[0];
  CHECK(use.gpu == "round");
  CHECK(use.kernel == "gemm");
  CHECK(use.inside == static_cast<std::int64_t>(table->within.size()));
  CHECK(use.outside == static_cast<std::int64_t>(table->beyond.size()));
  // The first matrix of the run: Q, K and V of 1000 tokens from 1000 inputs, 500 + 250 + 250 wide.
  CHECK(use.first_outside == "m=1000, n=1000, k=1000");

  options.tables = {{"another GPU", table}};
  CHECK(run_scenario(s, options).from_table.empty());
}

TEST_CASE("a world that may not wait simulates ideals aside, with the same result") {
  Scenario s = measured_scenario();
  s.strategies.push_back(strategy(PolicyKind::full, "again"));  // one ideal for both
  s.strategies.push_back(strategy(PolicyKind::hack, "hack"));
  RunOptions options;
  options.verdict = false;
  const Result plain = run_scenario(s, options);
  int asides = 0;
  options.aside = [&](const std::function<void()>& work) {
    ++asides;
    work();
  };
  const Result aside = run_scenario(s, options);
  CHECK(asides == 2);
  CHECK(aside.run_hash == plain.run_hash);
  CHECK(aside.strategies[1].stall_s.mean == plain.strategies[1].stall_s.mean);
}

TEST_CASE("provenance: a shape from a table has left no domain") {
  Scenario s = measured_scenario();
  set_domain(s, KernelClass::gemm, {{"m", 1000, 1000}});
  CHECK(run(s).outside_domain.size() == 1);  // the heads and decode steps: one row
  RunOptions options;
  options.verdict = false;
  options.tables = {{"round", std::make_shared<OneRow>()}};
  CHECK(run_scenario(s, options).outside_domain.empty());
}
