// HATA: codes and scores of every instruction set against the reference; scores bit for bit.

#include <doctest/doctest.h>

#include <limits>

#include "kernels/hata/kernel.h"
#include "tests/support/instruction_sets.h"
#include "tests/support/kernel_cases.h"

using namespace kvlane::kernels;
using namespace kvlane::kernels::testing;

TEST_CASE("codes: signs of the products, but where a product is 0 within fp32") {
  INFO("KVLANE_SEED=" << run_seed());
  Random random(1);
  for (Format format : {Format::fp32, Format::fp16, Format::bf16}) {
    for (int head_dim : {64, 128, 70}) {
      const int tokens = random.between(1, 150), kv_heads = 2, heads = random.below(2) == 0 ? 2 : 6;
      const auto vectors = static_cast<std::size_t>(tokens * heads);
      const auto width = static_cast<std::size_t>(head_dim);
      const Buffer x = normal_tensor(random, vectors * width, format, 1, bytes_of(format));
      Buffer weights = normal_tensor(random, 2 * width * 128, Format::fp32);
      std::vector<HataCode> expected(vectors);
      std::vector<std::uint16_t> expected_norms(vectors);
      HataEncode args{tokens,
                      heads,
                      kv_heads,
                      head_dim,
                      format,
                      x.data(),
                      weights.as<float>(),
                      expected.data(),
                      expected_norms.data()};
      ref::hata_encode(args);
      for_each_instruction_set([&](const std::string& name) {
        CAPTURE(name);
        Cpu cpu(2);
        std::vector<HataCode> codes(vectors);
        std::vector<std::uint16_t> norms(vectors);
        args.codes = codes.data();
        args.norms = norms.data();
        cpu::hata_encode(args, cpu);
        for (std::size_t v = 0; v < vectors; ++v) {
          for (std::size_t j = 0; j < 128; ++j) {
            const auto bit = [&](const HataCode& code) {
              return code.word[j / 64] >> (j % 64) & 1;
            };
            if (bit(codes[v]) == bit(expected[v])) continue;
            // The sum of |terms| bounds what fp32 can get wrong.
            double sum = 0, size = 0;
            const std::size_t kv_head =
                v % static_cast<std::size_t>(heads) / static_cast<std::size_t>(heads / kv_heads);
            for (std::size_t i = 0; i < width; ++i) {
              const double term =
                  static_cast<double>(load(x.data(), format, v * width + i)) *
                  static_cast<double>(weights.as<float>()[(kv_head * width + i) * 128 + j]);
              sum += term;
              size += std::fabs(term);
            }
            CHECK(std::fabs(sum) <= size * static_cast<double>(width) * 0x1p-24);
          }
          CHECK(std::abs(norms[v] - expected_norms[v]) <= 1);  // a step of fp16
        }
      });
    }
  }
}

TEST_CASE("a code is what the definition says; a NaN gives no bits") {
  const float x[] = {1, -2, std::numeric_limits<float>::quiet_NaN(), 0};
  std::vector<float> weights(2 * 128, 0.0f);
  weights[3] = 1;           // column 3: x0
  weights[128 + 100] = -1;  // column 100: -x1
  HataCode codes[2];
  HataEncode args{2, 1, 1, 2, Format::fp32, x, weights.data(), codes, nullptr};
  Cpu cpu(1);
  cpu::hata_encode(args, cpu);
  CHECK(codes[0].word[0] == 8);
  CHECK(codes[0].word[1] == std::uint64_t{1} << 36);
  CHECK(codes[1].word[0] == 0);
  CHECK(codes[1].word[1] == 0);
}

TEST_CASE("scores that are written past the caches are the reference's") {
  // 9 MiB of them, aligned; one more than whole vectors.
  const int width = 9 * (1 << 18) + 1;
  const std::int32_t tokens = width;
  std::vector<HataCode> key_codes(static_cast<std::size_t>(width));
  Random random(3);
  std::uint64_t state = random.engine()();
  for (HataCode& code : key_codes) {
    for (std::uint64_t& word : code.word)
      word = state = state * 6364136223846793005U + 1442695040888963407U;
  }
  const HataCode query{{random.engine()(), random.engine()()}};
  std::vector<float> expected(key_codes.size());
  HataScore args{1, 1, 1, width, &tokens, &query, key_codes.data(), nullptr, expected.data()};
  ref::hata_score(args);
  for_each_instruction_set([&](const std::string& name) {
    CAPTURE(name);
    Cpu cpu(2);
    Buffer scores(expected.size() * 4);
    args.scores = scores.as<float>();
    cpu::hata_score(args, cpu);
    CHECK(std::memcmp(scores.data(), expected.data(), expected.size() * 4) == 0);
  });
}

TEST_CASE("scores are the reference's bit for bit, and no other place is written") {
  INFO("KVLANE_SEED=" << run_seed());
  Random random(2);
  for (int group : {1, 3, 4, 8}) {
    for (bool with_norms : {false, true}) {
      const std::vector<std::int32_t> tokens = {0, 1, random.between(2, 6000)};
      const int width = tokens[2] + random.below(3), kv_heads = 2;
      const auto keys = static_cast<std::size_t>(3 * kv_heads * width);
      const auto queries = static_cast<std::size_t>(3 * kv_heads * group);
      std::vector<HataCode> key_codes(keys), query_codes(queries);
      for (auto* codes : {&key_codes, &query_codes}) {
        for (HataCode& code : *codes) code = {{random.engine()(), random.engine()()}};
      }
      std::vector<std::uint16_t> norms(keys);
      for (std::uint16_t& norm : norms) norm = to_fp16(std::fabs(random.normal()) * 10);
      if (with_norms) {
        norms[keys - 1] = 0x7e00;                             // NaN
        norms[static_cast<std::size_t>(width) * 4 + 1] = 3;   // subnormal
        norms[static_cast<std::size_t>(width) * 4] = 0x7c00;  // infinity
      }
      Buffer expected(keys * 4);
      HataScore args{3,
                     kv_heads * group,
                     kv_heads,
                     width,
                     tokens.data(),
                     query_codes.data(),
                     key_codes.data(),
                     with_norms ? norms.data() : nullptr,
                     expected.as<float>()};
      ref::hata_score(args);
      for_each_instruction_set([&](const std::string& name) {
        CAPTURE(name);
        Cpu cpu(2);
        Buffer scores(keys * 4, 4);
        args.scores = scores.as<float>();
        cpu::hata_score(args, cpu);
        bool same = true;
        for (std::size_t i = 0; i < keys; ++i) {
          const float a = scores.as<float>()[i], b = expected.as<float>()[i];
          same = same && (a == b || (std::isnan(a) && std::isnan(b)));
        }
        CHECK(same);
      });
    }
  }
}

TEST_CASE("equal codes score the size of the group, opposite ones its negative") {
  const HataCode key{{5, 7}}, other{{~std::uint64_t{5}, ~std::uint64_t{7}}};
  const HataCode queries[] = {key, key, key}, keys[] = {key, other};
  const std::int32_t tokens = 2;
  float scores[2];
  HataScore args{1, 3, 1, 2, &tokens, queries, keys, nullptr, scores};
  Cpu cpu(1);
  cpu::hata_score(args, cpu);
  CHECK(scores[0] == 3);
  CHECK(scores[1] == -3);
  args.width = 1;
  CHECK_THROWS_WITH_AS(cpu::hata_score(args, cpu), "a sequence that is longer than its codes",
                       std::invalid_argument);
}
