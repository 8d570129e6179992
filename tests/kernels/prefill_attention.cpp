// Prefill attention: every instruction set against the reference in double, the last query against
// decode attention, and what odd inputs give.

#include <doctest/doctest.h>

#include "kernels/decode_attention/kernel.h"
#include "kernels/prefill_attention/kernel.h"
#include "tests/support/instruction_sets.h"
#include "tests/support/kernel_cases.h"

using namespace kvlane::kernels;
using namespace kvlane::kernels::testing;

namespace {

struct Case {
  std::vector<std::int32_t> new_tokens, kv_tokens;
  int query_heads, kv_heads, head_dim, block_tokens;
  Format format;
  int window = 0;
  float soft_cap = 0;
};

PrefillAttention arguments(const Case& c, const PagedKv& kv, const Buffer& query, Buffer& out) {
  PrefillAttention args;
  args.sequences = static_cast<int>(c.kv_tokens.size());
  args.query_heads = c.query_heads;
  args.new_tokens = c.new_tokens.data();
  args.kv_tokens = c.kv_tokens.data();
  args.query = query.data();
  args.kv = kv.cache;
  args.scale = 1 / std::sqrt(static_cast<float>(c.head_dim));
  args.window = c.window;
  args.soft_cap = c.soft_cap;
  args.out = out.data();
  return args;
}

std::size_t elements_of(const Case& c) {
  std::size_t tokens = 0;
  for (std::int32_t n : c.new_tokens) tokens += static_cast<std::size_t>(n);
  return tokens * static_cast<std::size_t>(c.query_heads * c.head_dim);
}

}  // namespace

TEST_CASE("prefill attention is the reference's on every instruction set") {
  INFO("KVLANE_SEED=" << run_seed());
  Random random(1);
  std::vector<Case> cases;
  for (Format format : {Format::fp32, Format::fp16, Format::bf16}) {
    cases.push_back({{1}, {1}, 1, 1, 64, 16, format});
    cases.push_back({{0, 3, 17}, {5, 3, 90}, 4, 2, 64, 5, format});
    cases.push_back({{70}, {200}, 3, 1, 128, 16, format});
    cases.push_back({{33}, {150}, 2, 2, 256, 16, format, 40});
    const int n = random.between(1, 130), cached = random.between(0, 100);
    cases.push_back(
        {{n}, {n + cached}, 6, 2, 80, random.between(1, 20), format, random.between(1, 90), 5.0f});
    cases.push_back({{20}, {25}, 70, 1, 16, 16, format, 0, 20.0f});
  }
  for (const Case& c : cases) {
    CAPTURE(to_string(c.format));
    CAPTURE(c.head_dim);
    CAPTURE(c.window);
    PagedKv kv(random, c.kv_tokens, c.kv_heads, c.head_dim, c.block_tokens, c.format);
    const std::size_t elements = elements_of(c);
    const Buffer query = normal_tensor(random, elements, c.format, 1, bytes_of(c.format));
    Buffer expected(elements * bytes_of(c.format));
    ref::prefill_attention(arguments(c, kv, query, expected));
    for_each_instruction_set([&](const std::string& name) {
      CAPTURE(name);
      Cpu cpu(2);
      Buffer out(elements * bytes_of(c.format), bytes_of(c.format));
      cpu::prefill_attention(arguments(c, kv, query, out), cpu);
      CHECK(worst_error(out.data(), expected.data(), c.format, elements) <=
            allowed_error(c.format, static_cast<std::size_t>(c.head_dim)) +
                0x1p-24 * 16 * std::sqrt(static_cast<double>(c.head_dim)));
    });
  }
}

TEST_CASE("one new token is decode attention") {
  INFO("KVLANE_SEED=" << run_seed());
  Random random(2);
  const Case c{{1, 1}, {500, 77}, 8, 2, 128, 16, Format::bf16, 200};
  PagedKv kv(random, c.kv_tokens, 2, 128, 16, c.format);
  const Buffer query = normal_tensor(random, 2 * 8 * 128, c.format);
  Buffer out(2 * 8 * 128 * 2), decoded(2 * 8 * 128 * 2);
  const PrefillAttention args = arguments(c, kv, query, out);
  Cpu cpu(1);
  cpu::prefill_attention(args, cpu);
  cpu::decode_attention(
      {2, 8, query.data(), kv.cache, c.kv_tokens.data(), args.scale, c.window, 0, decoded.data()},
      cpu);
  CHECK(worst_error(out.data(), decoded.data(), c.format, 2 * 8 * 128) <=
        allowed_error(c.format, 128));
}

TEST_CASE("a NaN or infinity reaches the queries that see it, and no other") {
  Random random(3);
  for (bool value : {false, true}) {
    for (float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      for_each_instruction_set([&](const std::string& name) {
        CAPTURE(name);
        const Case c{{90}, {100}, 1, 1, 64, 16, Format::fp32, 30};
        PagedKv kv(random, c.kv_tokens, 1, 64, 16, Format::fp32);
        Buffer query(90 * 64 * 4);
        for (std::size_t i = 0; i < 90 * 64; ++i) store(query.data(), Format::fp32, i, 1);
        const int place = random.between(10, 69);
        store(kv.rows.data(), Format::fp32, kv.cache.row(0, 0, place) * 128 + (value ? 64 : 0),
              bad);
        Buffer out(90 * 64 * 4);
        Cpu cpu(1);
        cpu::prefill_attention(arguments(c, kv, query, out), cpu);
        for (int i = 0; i < 90; ++i) {  // query i stands at 10 + i and sees 30 keys
          const bool sees = place <= 10 + i && place > 10 + i - 30;
          CHECK(std::isfinite(load(out.data(), Format::fp32, static_cast<std::size_t>(i) * 64)) !=
                sees);
        }
      });
    }
  }
}

TEST_CASE("bad arguments are named") {
  Random random(4);
  Case c{{6}, {5}, 1, 1, 64, 16, Format::fp32};
  PagedKv kv(random, {5}, 1, 64, 16, Format::fp32);
  Buffer query(6 * 64 * 4), out(6 * 64 * 4);
  Cpu cpu(1);
  CHECK_THROWS_WITH_AS(cpu::prefill_attention(arguments(c, kv, query, out), cpu),
                       "more new tokens than the sequence has", std::invalid_argument);
}
