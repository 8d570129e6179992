// The references of attention and top-k, and the CPU kernels, against values that PyTorch computed
// in float64 (torch_values.py).

#include <doctest/doctest.h>

#include <algorithm>

#include "kernels/decode_attention/kernel.h"
#include "kernels/prefill_attention/kernel.h"
#include "kernels/sparse_attention/kernel.h"
#include "kernels/topk/kernel.h"
#include "tests/kernels/torch_values.h"
#include "tests/support/kernel_cases.h"

using namespace kvlane::kernels;
using namespace kvlane::kernels::testing;

namespace {

constexpr int kBlock = 4;

// The keys and values of torch_values.h in a block-major cache whose blocks lie backwards.
struct TorchKv {
  explicit TorchKv(int n)
      : tokens(n), rows(static_cast<std::size_t>((n + 3) / 4 * 4 * 2 * 128) * 4) {
    for (int i = 0; i < (n + 3) / 4; ++i) table.insert(table.begin(), i);
    cache.rows = rows.data();
    cache.block_table = table.data();
    cache.table_width = static_cast<int>(table.size());
    cache.block_tokens = kBlock;
    cache.kv_heads = kTorchKvHeads;
    cache.head_dim = kTorchHeadDim;
    cache.format = Format::fp32;
    std::uint32_t element = 0;
    for (int t = 0; t < n; ++t) {
      for (int h = 0; h < kTorchKvHeads; ++h) {
        const std::size_t row = cache.row(0, h, t) * 128;
        for (std::size_t i = 0; i < 64; ++i, ++element) {
          store(rows.data(), Format::fp32, row + i, static_cast<float>(torch_input(2, element)));
          store(rows.data(), Format::fp32, row + 64 + i,
                static_cast<float>(torch_input(3, element)));
        }
      }
    }
  }
  std::int32_t tokens;
  std::vector<std::int32_t> table;
  Buffer rows;
  KvCache cache;
};

Buffer torch_query(int tokens) {
  const auto elements = static_cast<std::size_t>(tokens * kTorchHeads * kTorchHeadDim);
  Buffer query(elements * 4);
  for (std::size_t i = 0; i < elements; ++i) {
    store(query.data(), Format::fp32, i,
          static_cast<float>(torch_input(1, static_cast<std::uint32_t>(i))));
  }
  return query;
}

template <std::size_t N>
void check(const Buffer& out, const double (&expected)[N]) {
  const std::size_t elements = out.bytes() / 4;
  REQUIRE((elements + kTorchStride - 1) / kTorchStride == N);
  for (std::size_t i = 0; i < N; ++i) {
    const auto ours = static_cast<double>(load(out.data(), Format::fp32, i * kTorchStride));
    CHECK(ours == doctest::Approx(expected[i]).epsilon(2e-6).scale(1));
  }
}

}  // namespace

TEST_CASE("prefill attention with a cached prefix is PyTorch's") {
  const TorchKv kv(11);
  const Buffer query = torch_query(3);
  const std::int32_t new_tokens = 3;
  const auto run = [&](int window, float soft_cap, bool on_cpu) {
    Buffer out(query.bytes());
    const PrefillAttention args{1,        kTorchHeads, &new_tokens, &kv.tokens, query.data(),
                                kv.cache, kTorchScale, window,      soft_cap,   out.data()};
    Cpu cpu(1);
    on_cpu ? cpu::prefill_attention(args, cpu) : ref::prefill_attention(args);
    return out;
  };
  for (bool on_cpu : {false, true}) {
    check(run(0, 0, on_cpu), kTorchPrefill);
    check(run(4, 0, on_cpu), kTorchPrefillWindow);
    check(run(0, 2.5f, on_cpu), kTorchPrefillCap);
    check(run(4, 2.5f, on_cpu), kTorchPrefillWindowCap);
  }
}

TEST_CASE("decode attention, whole and over selected rows, is PyTorch's") {
  const TorchKv kv(9);
  const Buffer query = torch_query(1);
  Cpu cpu(1);
  for (bool on_cpu : {false, true}) {
    const auto decode = [&](int window, float soft_cap) {
      Buffer out(query.bytes());
      const DecodeAttention args{1,           kTorchHeads, query.data(), kv.cache,  &kv.tokens,
                                 kTorchScale, window,      soft_cap,     out.data()};
      on_cpu ? cpu::decode_attention(args, cpu) : ref::decode_attention(args);
      return out;
    };
    check(decode(0, 0), kTorchDecode);
    check(decode(4, 0), kTorchDecodeWindow);
    check(decode(0, 2.5f), kTorchDecodeCap);
    const auto sparse = [&](float soft_cap) {
      Buffer out(query.bytes());
      const SparseAttention args{1,           kTorchHeads, query.data(), kv.cache,
                                 &kv.tokens,  kTorchIndex, nullptr,      4,
                                 kTorchScale, soft_cap,    out.data()};
      on_cpu ? cpu::sparse_attention(args, cpu) : ref::sparse_attention(args);
      return out;
    };
    check(sparse(0), kTorchSparse);
    check(sparse(2.5f), kTorchSparseCap);
  }
}

TEST_CASE("top-k is PyTorch's") {
  std::vector<float> scores;
  for (std::uint32_t i = 0; i < 120; ++i) {
    scores.push_back(static_cast<float>(torch_input(18, i) + i / 1024.0));
  }
  std::vector<std::int32_t> index(15), count(3);
  const TopK args{3, 40, scores.data(), nullptr, 5, index.data(), count.data()};
  ref::topk(args);
  CHECK(std::equal(index.begin(), index.end(), kTorchTopK));
  Cpu cpu(1);
  cpu::topk(args, cpu);
  CHECK(std::equal(index.begin(), index.end(), kTorchTopK));
}
