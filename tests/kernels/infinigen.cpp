// InfiniGen: partial vectors, scores and the number of rows against the reference in double.

#include <doctest/doctest.h>

#include <limits>

#include "kernels/infinigen/kernel.h"
#include "tests/support/instruction_sets.h"
#include "tests/support/kernel_cases.h"

using namespace kvlane::kernels;
using namespace kvlane::kernels::testing;

TEST_CASE("partial vectors are the reference's") {
  INFO("KVLANE_SEED=" << run_seed());
  Random random(1);
  for (Format format : {Format::fp32, Format::fp16, Format::bf16}) {
    for (int kept : {1, 16, 25, 32, 64}) {
      const int head_dim = 64, kv_heads = 2, heads = 4, tokens = random.between(1, 70);
      const auto vectors = static_cast<std::size_t>(tokens * heads);
      const Buffer x = normal_tensor(random, vectors * 64, format, 1, bytes_of(format));
      Buffer skew = normal_tensor(random, 2 * 64 * 64, Format::fp32, 0.125f);
      std::vector<std::int32_t> channels;
      for (int i = 0; i < kv_heads * kept; ++i) channels.push_back(random.below(head_dim));
      const std::size_t elements = vectors * static_cast<std::size_t>(kept);
      Buffer expected(elements * bytes_of(format));
      InfinigenProject args{tokens, heads,    kv_heads,         head_dim,        kept,
                            format, x.data(), skew.as<float>(), channels.data(), expected.data()};
      ref::infinigen_project(args);
      for_each_instruction_set([&](const std::string& name) {
        CAPTURE(name);
        Cpu cpu(2);
        Buffer partial(elements * bytes_of(format));
        args.partial = partial.data();
        cpu::infinigen_project(args, cpu);
        CHECK(worst_error(partial.data(), expected.data(), format, elements) <=
              allowed_error(format, 64));
      });
    }
  }
}

TEST_CASE("scores and the number of rows to take are the reference's") {
  INFO("KVLANE_SEED=" << run_seed());
  Random random(2);
  for (Format format : {Format::fp32, Format::fp16, Format::bf16}) {
    for (int kept : {7, 16, 32}) {
      const std::vector<std::int32_t> tokens = {0, 1, random.between(2, 900)};
      const int group = random.between(1, 5), kv_heads = 2, width = tokens[2] + random.below(4);
      const auto query_elements = static_cast<std::size_t>(3 * kv_heads * group * kept);
      const auto places = static_cast<std::size_t>(3 * kv_heads * width);
      const Buffer query = normal_tensor(random, query_elements, format);
      const Buffer keys = normal_tensor(random, places * static_cast<std::size_t>(kept), format);
      InfinigenScore args;
      args.sequences = 3;
      args.query_heads = kv_heads * group;
      args.kv_heads = kv_heads;
      args.channels_kept = kept;
      args.width = width;
      args.format = format;
      args.kv_tokens = tokens.data();
      args.query = query.data();
      args.keys = keys.data();
      args.scale = 0.5f;
      args.alpha = 3;
      Buffer expected(places * 4);
      std::int32_t expected_take = 0, least_take = 0, most_take = 0;
      args.scores = expected.as<float>();
      args.take = &most_take;
      // A logit within fp32's error of the threshold may fall on either side.
      args.alpha = 3.0001f;
      ref::infinigen_score(args);
      args.take = &least_take;
      args.alpha = 2.9999f;
      ref::infinigen_score(args);
      args.take = &expected_take;
      args.alpha = 3;
      ref::infinigen_score(args);
      for_each_instruction_set([&](const std::string& name) {
        CAPTURE(name);
        Cpu cpu(2);
        Buffer scores(places * 4);
        std::int32_t take = -1;
        args.scores = scores.as<float>();
        args.take = &take;
        cpu::infinigen_score(args, cpu);
        CHECK(take >= least_take);
        CHECK(take <= most_take);
        // A weight's relative error is the error of its logit: |logit| 2^-24 sqrt(kept).
        CHECK(worst_error(scores.data(), expected.data(), Format::fp32, places) <= 1e-4);
      });
    }
  }
}

TEST_CASE("the threshold counts, the cap and the length limit") {
  // Logits 0, -1, ... -9 for one head: alpha 4 wants 4 (x > -4).
  const std::int32_t n = 10;
  std::vector<float> keys(10), query = {1};
  for (int t = 0; t < 10; ++t) keys[static_cast<std::size_t>(t)] = static_cast<float>(-t);
  std::vector<float> scores(10);
  std::int32_t take = 0;
  InfinigenScore args{
      1, 1, 1, 1, 10, Format::fp32, &n, query.data(), keys.data(), 1, 4, 0, scores.data(), &take};
  Cpu cpu(1);
  cpu::infinigen_score(args, cpu);
  CHECK(take == 4);
  double sum = 0;
  for (int t = 0; t < 10; ++t) sum += std::exp(-t);
  CHECK(static_cast<double>(scores[3]) == doctest::Approx(std::exp(-3) / sum).epsilon(1e-5));
  args.cap = 3;
  cpu::infinigen_score(args, cpu);
  CHECK(take == 3);
  args.cap = 0;
  args.alpha = 100;
  cpu::infinigen_score(args, cpu);
  CHECK(take == 10);
  args.alpha = 0;  // nothing lies above the maximum: still one row
  cpu::infinigen_score(args, cpu);
  CHECK(take == 1);
}

TEST_CASE("a NaN key makes the scores of its kv head NaN; bad arguments are named") {
  const std::int32_t n = 20;
  std::vector<float> keys(40, 1.0f), query = {1, 1}, scores(40);
  keys[5] = std::numeric_limits<float>::quiet_NaN();
  std::int32_t take = 0;
  InfinigenScore args{
      1, 2, 2, 1, 20, Format::fp32, &n, query.data(), keys.data(), 1, 4, 0, scores.data(), &take};
  for_each_instruction_set([&](const std::string&) {
    Cpu cpu(1);
    cpu::infinigen_score(args, cpu);
    for (std::size_t t = 0; t < 40; ++t) CHECK(std::isnan(scores[t]) == (t < 20));
  });
  args.alpha = -1;
  Cpu cpu(1);
  CHECK_THROWS_AS(cpu::infinigen_score(args, cpu), std::invalid_argument);
  std::int32_t channel = 64;
  const float skew[64 * 64] = {};
  InfinigenProject project{0, 1, 1, 64, 1, Format::fp32, nullptr, skew, &channel, nullptr};
  CHECK_THROWS_WITH_AS(cpu::infinigen_project(project, cpu),
                       "a kept channel that the head does not have", std::invalid_argument);
}
