#pragma once
// The kernels by their references, one thread and in double: what another backend must give for the
// same operands. Every call notes where its results are.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "calibrate/measure/backend.h"

namespace kvlane::testing {

struct Result {
  enum class Kind { values, exact, codes, store };
  const void* values = nullptr;
  std::size_t count = 0;  // of values; bytes of exact ones and codes
  kernels::Format format = kernels::Format::bf16;
  Kind kind = Kind::values;
};

// Of values the root of the summed squares of differences, against that of the reference; of the
// others the share of bytes that differ.
inline double difference(const Result& expected, const std::byte* given) {
  double wrong = 0, size = 0;
  for (std::size_t i = 0; i < expected.count; ++i) {
    if (expected.kind != Result::Kind::values) {
      wrong += static_cast<const std::byte*>(expected.values)[i] == given[i] ? 0 : 1;
      size += 1;
      continue;
    }
    const double want = kernels::load(expected.values, expected.format, i);
    const double have = kernels::load(given, expected.format, i);
    if (std::isnan(want) && std::isnan(have)) continue;
    wrong += (have - want) * (have - want);
    size += want * want;
  }
  const double share = wrong / std::max(size, 1e-300);
  return expected.kind == Result::Kind::values ? std::sqrt(share) : share;
}

// Rounding of a 16-bit result, and of the weights that tensor cores take in 16 bits. A sign that
// hangs on a sum's last bit may turn a bit of a code. In HACK's store every backend leaves other
// bytes where rows of the open block were before their partition was whole; that it holds the same
// tokens shows in the attention over it.
inline double tolerance(const Result& result) {
  switch (result.kind) {
    case Result::Kind::exact:
      return 1e-9;
    case Result::Kind::store:
      return 0.1;
    default:
      return 0.01;
  }
}

class ReferenceBackend final : public calibrate::Backend {
 public:
  using Backend::Backend;
  std::vector<Result> results;

  calibrate::Call prefill_attention(const kernels::PrefillAttention& args, int new_tokens,
                                    int) override {
    note(args.out,
         size(args.sequences) * size(new_tokens) * size(args.query_heads) * size(args.kv.head_dim));
    return [args] { kernels::ref::prefill_attention(args); };
  }
  calibrate::Call decode_attention(const kernels::DecodeAttention& args, int) override {
    note(args.out, size(args.sequences) * size(args.query_heads) * size(args.kv.head_dim));
    return [args] { kernels::ref::decode_attention(args); };
  }
  calibrate::Call sparse_attention(const kernels::SparseAttention& args) override {
    note(args.out, size(args.sequences) * size(args.query_heads) * size(args.kv.head_dim));
    return [args] { kernels::ref::sparse_attention(args); };
  }
  calibrate::Call hata_encode(const kernels::HataEncode& args) override {
    const std::size_t vectors = size(args.tokens) * size(args.heads);
    note_bytes(args.codes, vectors * sizeof(kernels::HataCode), Result::Kind::codes);
    note(args.norms, vectors, kernels::Format::fp16);
    return [args] { kernels::ref::hata_encode(args); };
  }
  calibrate::Call hata_score(const kernels::HataScore& args) override {
    note(args.scores, size(args.sequences) * size(args.kv_heads) * size(args.width),
         kernels::Format::fp32);
    return [args] { kernels::ref::hata_score(args); };
  }
  calibrate::Call infinigen_project(const kernels::InfinigenProject& args) override {
    note(args.partial, size(args.tokens) * size(args.heads) * size(args.channels_kept));
    return [args] { kernels::ref::infinigen_project(args); };
  }
  calibrate::Call infinigen_score(const kernels::InfinigenScore& args) override {
    note(args.scores, size(args.sequences) * size(args.kv_heads) * size(args.width),
         kernels::Format::fp32);
    note_bytes(args.take, sizeof *args.take, Result::Kind::exact);
    return [args] { kernels::ref::infinigen_score(args); };
  }
  calibrate::Call topk(const kernels::TopK& args) override {
    note_bytes(args.index, size(args.rows) * size(args.k) * 4, Result::Kind::exact);
    note_bytes(args.count, size(args.rows) * 4, Result::Kind::exact);
    return [args] { kernels::ref::topk(args); };
  }
  calibrate::Call index_split(const kernels::IndexSplit& args) override {
    const std::size_t rows = size(args.sequences) * size(args.kv_heads);
    note_bytes(args.split, rows * size(args.index_width) * 4, Result::Kind::exact);
    note_bytes(args.local_count, rows * 4, Result::Kind::exact);
    return [args] { kernels::ref::index_split(args); };
  }
  calibrate::Call hack_append(const kernels::HackAppend& args, int) override {
    note_bytes(args.store, size(args.sequences) * hack_sequence_bytes(args.shape),
               Result::Kind::store);
    return [args] { kernels::ref::hack_append(args); };
  }
  calibrate::Call hack_attention(const kernels::HackAttention& args, int) override {
    note(args.out, size(args.sequences) * size(args.query_heads) * size(args.shape.head_dim));
    return [args] { kernels::ref::hack_attention(args); };
  }
  calibrate::Call hack_dequantise_attention(const kernels::HackAttention& args, int) override {
    note(args.out, size(args.sequences) * size(args.query_heads) * size(args.shape.head_dim));
    return [args] { kernels::ref::hack_dequantise_attention(args); };
  }
  calibrate::Call rms_norm(const kernels::RmsNorm& args) override {
    note(args.out, size(args.rows) * size(args.width));
    return [args] { kernels::ref::rms_norm(args); };
  }
  calibrate::Call rope(const kernels::Rope& args) override {
    note(args.out, size(args.tokens) * size(args.heads) * size(args.head_dim));
    return [args] { kernels::ref::rope(args); };
  }
  calibrate::Call gated_unit(const kernels::GatedUnit& args) override {
    note(args.out, size(args.rows) * size(args.width));
    return [args] { kernels::ref::gated_unit(args); };
  }
  calibrate::Call embedding(const kernels::Embedding& args) override {
    note(args.out, size(args.tokens) * size(args.width));
    return [args] { kernels::ref::embedding(args); };
  }
  calibrate::Call add(const kernels::Add& args) override {
    note(args.out, static_cast<std::size_t>(args.elements));
    return [args] { kernels::ref::add(args); };
  }
  calibrate::Call gemm(const kernels::Gemm& args) override {
    note(args.out, size(args.m) * size(args.n), args.format);
    return [args] { kernels::ref::gemm(args); };
  }

 private:
  static std::size_t size(int number) { return static_cast<std::size_t>(number); }
  void note(const void* values, std::size_t count, kernels::Format format = kernels::Format::bf16) {
    results.push_back({values, count, format, Result::Kind::values});
  }
  void note_bytes(const void* values, std::size_t bytes, Result::Kind kind) {
    results.push_back({values, bytes, kernels::Format::bf16, kind});
  }
};

}  // namespace kvlane::testing
