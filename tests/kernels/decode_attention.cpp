// Decode attention over the whole KV and over selected rows: every instruction set against the
// reference in double, whole against selected, and what odd inputs give.

#include <doctest/doctest.h>

#include <numeric>

#include "kernels/decode_attention/kernel.h"
#include "kernels/sparse_attention/kernel.h"
#include "tests/support/instruction_sets.h"
#include "tests/support/kernel_cases.h"

using namespace kvlane::kernels;
using namespace kvlane::kernels::testing;

namespace {

struct Case {
  std::vector<std::int32_t> tokens;
  int query_heads, kv_heads, head_dim, block_tokens;
  Format format;
  int window = 0;
  float soft_cap = 0;
};

std::vector<Case> cases(Random& random) {
  std::vector<Case> all;
  for (Format format : {Format::fp32, Format::fp16, Format::bf16}) {
    all.push_back({{1}, 1, 1, 64, 16, format});
    all.push_back({{0, 5, 1}, 4, 2, 64, 3, format});
    all.push_back({{33, 0, 1027, 64}, 8, 2, 128, 16, format});
    all.push_back({{2050}, 7, 1, 256, 16, format, 100});
    all.push_back({{random.between(1, 700), random.between(1, 700)},
                   6,
                   3,
                   80,
                   random.between(1, 20),
                   format,
                   random.between(1, 300),
                   5.0f});
    all.push_back({{random.between(1024, 3000)}, 5, 5, 112, 7, format, 0, 30.0f});
  }
  return all;
}

DecodeAttention arguments(const Case& c, const PagedKv& kv, const Buffer& query, Buffer& out) {
  DecodeAttention args;
  args.sequences = static_cast<int>(c.tokens.size());
  args.query_heads = c.query_heads;
  args.query = query.data();
  args.kv = kv.cache;
  args.kv_tokens = kv.tokens.data();
  args.scale = 1 / std::sqrt(static_cast<float>(c.head_dim));
  args.window = c.window;
  args.soft_cap = c.soft_cap;
  args.out = out.data();
  return args;
}

// The error of the output against the largest value of the reference: fp32 sums over head_dim
// products in a logit, whose error the exponential turns into a relative one of a weight, and one
// rounding to the format.
double bound(const Case& c) {
  return allowed_error(c.format, static_cast<std::size_t>(c.head_dim)) +
         0x1p-24 * 16 * std::sqrt(static_cast<double>(c.head_dim));
}

}  // namespace

TEST_CASE("decode attention is the reference's on every instruction set") {
  INFO("KVLANE_SEED=" << run_seed());
  Random random(1);
  for (const Case& c : cases(random)) {
    CAPTURE(c.tokens.size());
    CAPTURE(c.head_dim);
    CAPTURE(to_string(c.format));
    PagedKv kv(random, c.tokens, c.kv_heads, c.head_dim, c.block_tokens, c.format);
    const std::size_t elements =
        c.tokens.size() * static_cast<std::size_t>(c.query_heads * c.head_dim);
    const Buffer query =
        normal_tensor(random, elements, c.format, 1, bytes_of(c.format));  // unaligned
    Buffer expected(elements * bytes_of(c.format));
    ref::decode_attention(arguments(c, kv, query, expected));
    for_each_instruction_set([&](const std::string& name) {
      CAPTURE(name);
      for (int threads : {1, 3}) {
        Cpu cpu(threads);
        Buffer out(elements * bytes_of(c.format), bytes_of(c.format));
        cpu::decode_attention(arguments(c, kv, query, out), cpu);
        CHECK(worst_error(out.data(), expected.data(), c.format, elements) <= bound(c));
      }
    });
  }
}

TEST_CASE("attention over selected rows is the reference's, and all rows selected give all") {
  INFO("KVLANE_SEED=" << run_seed());
  Random random(2);
  for (const Case& c : cases(random)) {
    if (c.window > 0) continue;
    PagedKv kv(random, c.tokens, c.kv_heads, c.head_dim, c.block_tokens, c.format);
    const std::size_t pairs = c.tokens.size() * static_cast<std::size_t>(c.kv_heads);
    const std::size_t elements =
        c.tokens.size() * static_cast<std::size_t>(c.query_heads * c.head_dim);
    const Buffer query = normal_tensor(random, elements, c.format);
    for (bool all : {false, true}) {
      const int width = *std::max_element(c.tokens.begin(), c.tokens.end()) + 3;
      std::vector<std::int32_t> index(pairs * static_cast<std::size_t>(width), -7), count(pairs);
      for (std::size_t p = 0; p < pairs; ++p) {
        const int n = c.tokens[p / static_cast<std::size_t>(c.kv_heads)];
        std::vector<std::int32_t> order(static_cast<std::size_t>(n));
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), random.engine());
        count[p] = all ? n : random.below(n + 1);
        std::copy_n(order.begin(), count[p], index.begin() + static_cast<long>(p) * width);
      }
      const DecodeAttention whole = [&] {
        static Buffer unused(0);
        return arguments(c, kv, query, unused);
      }();
      SparseAttention args;
      args.sequences = whole.sequences;
      args.query_heads = whole.query_heads;
      args.query = whole.query;
      args.kv = whole.kv;
      args.kv_tokens = whole.kv_tokens;
      args.index = index.data();
      args.index_count = count.data();
      args.index_width = width;
      args.scale = whole.scale;
      args.soft_cap = whole.soft_cap;
      Buffer expected(elements * bytes_of(c.format));
      if (all) {
        ref::decode_attention(arguments(c, kv, query, expected));
      } else {
        args.out = expected.data();
        ref::sparse_attention(args);
      }
      for_each_instruction_set([&](const std::string& name) {
        CAPTURE(name);
        Cpu cpu(2);
        Buffer out(elements * bytes_of(c.format));
        args.out = out.data();
        cpu::sparse_attention(args, cpu);
        CHECK(worst_error(out.data(), expected.data(), c.format, elements) <= bound(c));
      });
    }
  }
}

TEST_CASE("no tokens give 0, equal keys the mean of the values") {
  Random random(3);
  PagedKv kv(random, {0, 6}, 1, 64, 4, Format::fp32);
  for (int t = 0; t < 6; ++t) {
    const std::size_t row = kv.cache.row(1, 0, t) * kv.cache.row_elements();
    for (std::size_t i = 0; i < 64; ++i) {
      store(kv.rows.data(), Format::fp32, row + i, 1);
      store(kv.rows.data(), Format::fp32, row + 64 + i, static_cast<float>(t));
    }
  }
  const Buffer query = normal_tensor(random, 128, Format::fp32);
  Buffer out(128 * 4);
  const Case c{{0, 6}, 1, 1, 64, 4, Format::fp32};
  Cpu cpu(1);
  cpu::decode_attention(arguments(c, kv, query, out), cpu);
  for (std::size_t i = 0; i < 64; ++i) {
    CHECK(load(out.data(), Format::fp32, i) == 0);
    CHECK(load(out.data(), Format::fp32, 64 + i) == doctest::Approx(2.5).epsilon(1e-6));
  }
}

TEST_CASE("a NaN or infinite logit makes its query heads NaN, the others stay") {
  Random random(4);
  const float infinity = std::numeric_limits<float>::infinity();
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), infinity}) {
    for_each_instruction_set([&](const std::string& name) {
      CAPTURE(name);
      const Case c{{700}, 4, 2, 64, 16, Format::fp32};
      PagedKv kv(random, c.tokens, 2, 64, 16, Format::fp32);
      const Buffer query = [&] {
        Buffer ones(4 * 64 * 4);
        for (std::size_t i = 0; i < 256; ++i) store(ones.data(), Format::fp32, i, 1);
        return ones;
      }();
      store(kv.rows.data(), Format::fp32, kv.cache.row(0, 1, random.below(700)) * 128, bad);
      Buffer out(4 * 64 * 4);
      Cpu cpu(1);
      cpu::decode_attention(arguments(c, kv, query, out), cpu);
      for (std::size_t i = 0; i < 256; ++i) {
        CHECK(std::isnan(load(out.data(), Format::fp32, i)) == (i >= 128));
      }
    });
  }
}

TEST_CASE("a key at -infinity has no weight; only such keys give NaN") {
  Random random(5);
  for (int bad : {3, 40}) {  // of 40 tokens: more than a tile
    const Case c{{40}, 1, 1, 64, 16, Format::fp32};
    PagedKv kv(random, c.tokens, 1, 64, 16, Format::fp32);
    Buffer query(64 * 4);
    for (std::size_t i = 0; i < 64; ++i) store(query.data(), Format::fp32, i, 1);
    for (int t = 0; t < bad; ++t) {
      store(kv.rows.data(), Format::fp32, kv.cache.row(0, 0, t) * 128,
            -std::numeric_limits<float>::infinity());
    }
    Buffer out(64 * 4), expected(64 * 4);
    ref::decode_attention(arguments(c, kv, query, expected));
    Cpu cpu(1);
    cpu::decode_attention(arguments(c, kv, query, out), cpu);
    CHECK(std::isnan(load(out.data(), Format::fp32, 5)) == (bad == 40));
    CHECK(worst_error(out.data(), expected.data(), Format::fp32, 64) < 1e-5);
  }
}

TEST_CASE("bad arguments are named") {
  Random random(6);
  const Case c{{5}, 4, 2, 64, 16, Format::bf16};
  PagedKv kv(random, c.tokens, 2, 64, 16, Format::bf16);
  Buffer query(4 * 64 * 2), out(4 * 64 * 2);
  Cpu cpu(1);
  DecodeAttention args = arguments(c, kv, query, out);
  CHECK(problem(args) == nullptr);
  args.query_heads = 3;
  CHECK_THROWS_WITH_AS(cpu::decode_attention(args, cpu),
                       "query heads that are not a multiple of the kv heads",
                       std::invalid_argument);
  args = arguments(c, kv, query, out);
  args.kv.table_width = 0;
  CHECK_THROWS_AS(cpu::decode_attention(args, cpu), std::invalid_argument);
  args = arguments(c, kv, query, out);
  args.soft_cap = std::numeric_limits<float>::quiet_NaN();
  CHECK_THROWS_AS(cpu::decode_attention(args, cpu), std::invalid_argument);

  SparseAttention sparse;
  sparse.sequences = 1;
  sparse.query_heads = 4;
  sparse.query = query.data();
  sparse.kv = kv.cache;
  sparse.kv_tokens = kv.tokens.data();
  const std::int32_t counts[] = {1, 2};
  const std::int32_t both[] = {0, 1, 0, 5};
  sparse.index = both;
  sparse.index_width = 2;
  sparse.index_count = counts;
  sparse.out = out.data();
  CHECK_THROWS_WITH_AS(cpu::sparse_attention(sparse, cpu),
                       "a selected row that the sequence does not have", std::invalid_argument);
}
