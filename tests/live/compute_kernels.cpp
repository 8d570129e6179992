// Work as kernels: the cut is that of the cost model, the results are numbers.

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "calibrate/live/compute/work_calls.h"
#include "calibrate/live/compute/work_kernels.h"
#include "calibrate/measure/cpu_backend.h"
#include "calibrate/measure/host_memory.h"
#include "sim/gpu/sample_cost.h"
#include "tests/live/compute_support.h"

namespace kvlane::live {
namespace {

using calibrate::Call;
using kernels::Format;
using test::kAllKinds;
using test::plain_cpu;
using test::shipped_model;
using test::work_of;

double price(const std::vector<KernelStep>& steps, const GpuSpec& gpu) {
  const SampleCost cost(gpu);
  double seconds = 0;
  for (const KernelStep& step : steps) {
    const auto one = cost.seconds(step.shape);
    REQUIRE_MESSAGE(one.has_value(), step.shape.kernel);
    seconds += *one * static_cast<double>(step.times);
  }
  return seconds;
}

void check_cut(const ModelSpec& model, const Work& work, double tolerance, int tp = 1) {
  const GpuSpec gpu = plain_cpu();
  const CostModel cost(gpu, model, tp, false);
  const double whole = to_seconds(cost.duration(work));
  const double parts = price(kernels_of(work, cost, "bf16"), gpu);
  CHECK_MESSAGE(std::abs(parts - whole) <= tolerance * whole, model.name, " ",
                std::string(to_string(work.kind)), ": kernels of ", parts, " s, modelled ", whole,
                " s");
}

// Looks at every value that a kernel has written.
class Checked final : public calibrate::Backend {
 public:
  Checked(calibrate::Operands& operands, kernels::Cpu& cpu)
      : Backend(operands), inner_(operands, cpu) {}
  std::size_t values = 0, wrong = 0;

  Call prefill_attention(const kernels::PrefillAttention& a, int n, int kv) override {
    return checked(inner_.prefill_attention(a, n, kv), a.out, a.kv.format,
                   sized(a.sequences, n, a.query_heads) * width(a.kv.head_dim));
  }
  Call decode_attention(const kernels::DecodeAttention& a, int kv) override {
    return checked(inner_.decode_attention(a, kv), a.out, a.kv.format,
                   sized(a.sequences, a.query_heads, a.kv.head_dim));
  }
  Call sparse_attention(const kernels::SparseAttention& a) override {
    return inner_.sparse_attention(a);
  }
  Call hata_encode(const kernels::HataEncode& a) override { return inner_.hata_encode(a); }
  Call hata_score(const kernels::HataScore& a) override {
    return checked(inner_.hata_score(a), a.scores, Format::fp32,
                   sized(a.sequences, a.kv_heads, a.width));
  }
  Call infinigen_project(const kernels::InfinigenProject& a) override {
    return checked(inner_.infinigen_project(a), a.partial, a.format,
                   sized(a.tokens, a.heads, a.channels_kept));
  }
  Call infinigen_score(const kernels::InfinigenScore& a) override {
    return checked(inner_.infinigen_score(a), a.scores, Format::fp32,
                   sized(a.sequences, a.kv_heads, a.width));
  }
  Call topk(const kernels::TopK& a) override { return inner_.topk(a); }
  Call index_split(const kernels::IndexSplit& a) override { return inner_.index_split(a); }
  Call hack_append(const kernels::HackAppend& a, int n) override {
    return inner_.hack_append(a, n);
  }
  Call hack_attention(const kernels::HackAttention& a, int kv) override {
    return checked(inner_.hack_attention(a, kv), a.out, a.shape.format,
                   sized(a.sequences, a.query_heads, a.shape.head_dim));
  }
  Call hack_dequantise_attention(const kernels::HackAttention& a, int kv) override {
    return inner_.hack_dequantise_attention(a, kv);
  }
  Call rms_norm(const kernels::RmsNorm& a) override {
    return checked(inner_.rms_norm(a), a.out, Format::bf16, sized(a.rows, a.width));
  }
  Call rope(const kernels::Rope& a) override {
    return checked(inner_.rope(a), a.out, Format::bf16, sized(a.tokens, a.heads, a.head_dim));
  }
  Call gated_unit(const kernels::GatedUnit& a) override {
    return checked(inner_.gated_unit(a), a.out, Format::bf16, sized(a.rows, a.width));
  }
  Call embedding(const kernels::Embedding& a) override { return inner_.embedding(a); }
  Call add(const kernels::Add& a) override {
    return checked(inner_.add(a), a.out, Format::bf16, static_cast<std::size_t>(a.elements));
  }
  Call gemm(const kernels::Gemm& a) override {
    return checked(inner_.gemm(a), a.out, a.format, sized(a.m, a.n));
  }

 private:
  static std::size_t width(int n) { return static_cast<std::size_t>(n); }
  static std::size_t sized(int a, int b, int c = 1) { return width(a) * width(b) * width(c); }
  Call checked(Call call, const void* out, Format format, std::size_t count) {
    return [this, call = std::move(call), out, format, count] {
      call();
      values += count;
      for (std::size_t i = 0; i < count; ++i) {
        if (!std::isfinite(kernels::load(out, format, i))) ++wrong;
      }
    };
  }
  calibrate::CpuBackend inner_;
};

// Calls of SmolLM2-135M on one thread, with so many MiB for values and results.
struct SmallCalls {
  SmallCalls(std::size_t values_mib, std::size_t results_mib)
      : values(values_mib << 20U), results(results_mib << 20U) {}
  CostModel cost{plain_cpu(), shipped_model("smollm2-135m"), 1, false};
  calibrate::HostMemory values, results;
  calibrate::Operands operands{values.arena(), results.arena(), std::memcpy};
  kernels::Cpu cpu{1};
  calibrate::CpuBackend backend{operands, cpu};
  WorkCalls calls{cost, backend, "fp32"};
};

}  // namespace

TEST_CASE("the kernels of a piece of work cost what the cost model says") {
  const ModelSpec small = shipped_model("smollm2-135m");
  for (const WorkKind kind :
       {WorkKind::prefill_layer, WorkKind::build_metadata, WorkKind::decode_qkv,
        WorkKind::decode_attention, WorkKind::decode_ffn, WorkKind::dequantise}) {
    check_cut(small, work_of(kind), 0.02);
  }
  // InfiniGen's metadata; a cached prefix; HACK, whose lengths are rounded to half a partition.
  Work work = work_of(WorkKind::build_metadata);
  work.hashed = false;
  work.selector_bytes = 26;
  check_cut(small, work, 0.02);
  work = work_of(WorkKind::prefill_layer);
  work.context_tokens = 2048;
  check_cut(small, work, 0.02);
  work = work_of(WorkKind::decode_attention, 2, 4 + 31 * 64 + 32);
  work.kv_bits = 2;
  check_cut(small, work, 0.02);
  work = work_of(WorkKind::quantise);
  work.kv_bits = 2;
  check_cut(small, work, 0.02);
  // Sampling is another, and small beside the words' product.
  check_cut(small, work_of(WorkKind::decode_head), 0.1);
  check_cut(small, work_of(WorkKind::prefill_head), 0.1);
}

TEST_CASE("a window is walked over as many keys as it sees, ranks share heads and weights") {
  const ModelSpec gemma = shipped_model("gemma-3-4b");
  for (const std::uint32_t layer : {0U, 5U}) {  // windowed, full
    Work work = work_of(WorkKind::prefill_layer, 1, 4096);
    work.layer = LayerId(layer);
    check_cut(gemma, work, 0.03);
    work.new_tokens = 700;  // after a prefix that fills the window, in part
    work.context_tokens = 1500;
    check_cut(gemma, work, 0.03);
  }
  const ModelSpec llama = shipped_model("llama-3.1-8b");
  Work work = work_of(WorkKind::decode_attention);
  work.attended_rows = 2 * 512 * 8;
  check_cut(llama, work, 0.02, 2);
  check_cut(llama, work_of(WorkKind::decode_qkv), 0.02, 2);
}

TEST_CASE("linear attention has no kernel: one clear error") {
  ModelSpec model = shipped_model("smollm2-135m");
  model.layers[1].attention = AttentionKind::linear;
  const CostModel cost(plain_cpu(), model, 1, false);
  CHECK_THROWS_WITH_AS(kernels_of(work_of(WorkKind::decode_qkv), cost, "bf16"),
                       doctest::Contains("layer 1 of SmolLM2-135M has linear attention"),
                       std::runtime_error);
}

TEST_CASE("calls of every kind of work write finite numbers and indices in range") {
  const CostModel cost(plain_cpu(), shipped_model("smollm2-135m"), 1, false);
  const calibrate::HostMemory values(std::size_t{128} << 20U), results(std::size_t{64} << 20U);
  calibrate::Operands operands(values.arena(), results.arena(), std::memcpy);
  kernels::Cpu cpu(1);
  Checked backend(operands, cpu);
  WorkCalls calls(cost, backend, "fp32");
  for (const WorkKind kind : kAllKinds) {
    Work work = work_of(kind);
    if (kind == WorkKind::decode_attention) work.kv_bits = 2;
    const auto made = calls.of(work);
    CHECK(calls.of(work) == made);  // kept
    for (const Call& call : made->calls) call();
  }
  Work work = work_of(WorkKind::select);
  for (const bool hashed : {true, false}) {
    work.hashed = hashed;
    work.selector_bytes = hashed ? 18 : 26;
    const auto made = calls.of(work);
    for (const Call& call : made->calls) call();
    REQUIRE(made->selection.has_value());
    const SelectionOutput& out = *made->selection;
    CHECK(out.sequences == 2);
    CHECK(out.kv_heads == 3);
    CHECK(out.kv_tokens == 512);
    REQUIRE(out.chosen == 102);
    bool differ = false;
    for (std::int64_t row = 0; row < 6; ++row) {
      const std::int32_t* const index = out.index + row * out.chosen;
      const std::int32_t* const split = out.split + row * out.chosen;
      for (std::int64_t i = 0; i < out.chosen; ++i) {
        CHECK(index[i] >= 0);
        CHECK(index[i] < 512);
        if (i > 0) CHECK(index[i] > index[i - 1]);
        CHECK(split[i] >= 0);
        if (index[i] != out.index[i]) differ = true;
      }
      CHECK(out.local_count[row] >= 0);
      CHECK(out.local_count[row] <= out.chosen);
    }
    CHECK(differ);  // chosen by scores, not by position
  }
  CHECK(backend.values > 1'000'000);
  CHECK(backend.wrong == 0);
}

TEST_CASE("work of the same kernels has one call, whatever its numbers are") {
  SmallCalls small(64, 64);
  WorkCalls& calls = small.calls;
  Work work = work_of(WorkKind::decode_attention);
  const std::int64_t rows = work.attended_rows;
  const auto exact = calls.of(work);
  work.attended_rows = 2 * rows;
  CHECK(calls.of(work) != exact);
  // HACK's kernel goes by partitions, which a token more does not change.
  work.kv_bits = 2;
  work.partition = 64;
  const auto packed = calls.of(work);
  CHECK(packed != exact);
  work.attended_rows += work.batch * small.cost.model().layers[0].kv_heads;
  CHECK(calls.of(work) == packed);
  work.attended_rows *= 2;
  CHECK(calls.of(work) != packed);
}

TEST_CASE("without room calls are refused, and made anew once the others are forgotten") {
  SmallCalls small(16, 6);
  WorkCalls& calls = small.calls;
  CHECK_THROWS_AS(calls.of(work_of(WorkKind::decode_head)), calibrate::NoRoom);  // 113 MB of words
  calls.forget();
  std::int64_t tokens = 32;
  CHECK_THROWS_AS(
      for (; tokens < 2000; ++tokens) calls.of(work_of(WorkKind::prefill_layer, 1, tokens)),
      calibrate::NoRoom);
  CHECK(tokens > 33);
  calls.forget();
  CHECK(calls.kept() == 0);
  CHECK(calls.of(work_of(WorkKind::prefill_layer, 1, tokens))->calls.size() > 8);
}

}  // namespace kvlane::live
