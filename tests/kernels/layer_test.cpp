// The layer operations on every instruction set against their references; bad arguments; values
// that are not finite.

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "kernels/layer/kernel.h"
#include "tests/support/instruction_sets.h"
#include "tests/support/kernel_cases.h"

namespace kvlane::kernels {
namespace {

using testing::allowed_error;
using testing::Buffer;
using testing::for_each_instruction_set;
using testing::normal_tensor;
using testing::Random;
using testing::run_seed;
using testing::worst_error;

constexpr Format kFormats[] = {Format::fp32, Format::fp16, Format::bf16};

std::size_t size(int n) { return static_cast<std::size_t>(n); }

// Runs `backend(args, out)` on every instruction set and compares with `reference`, both into
// poisoned outputs at an odd address.
template <class Args>
void compare(Args args, void (*reference)(const Args&), void (*backend)(const Args&, Cpu&),
             std::size_t elements, std::size_t terms, Cpu& cpu) {
  INFO(run_seed());
  INFO(to_string(args.format));
  Buffer expected(elements * bytes_of(args.format));
  args.out = expected.data();
  reference(args);
  for_each_instruction_set([&](const std::string& name) {
    INFO(name);
    Buffer out(elements * bytes_of(args.format), bytes_of(args.format));
    args.out = out.data();
    backend(args, cpu);
    CHECK(worst_error(out.data(), expected.data(), args.format, elements) <=
          allowed_error(args.format, terms));
  });
}

TEST_CASE("rms_norm on every instruction set") {
  Random random(1);
  Cpu cpu(3);
  for (Format format : kFormats) {
    for (int width : {1, 7, 64, 129, 4096}) {
      for (int rows : {0, 1, 5}) {
        const float deviation = std::ldexp(1.0f, random.between(-4, 4));
        const Buffer x =
            normal_tensor(random, size(rows * width), format, deviation, bytes_of(format));
        const Buffer weight = normal_tensor(random, size(width), format);
        RmsNorm args{rows, width, format, x.data(), weight.data(), 1e-5f, false, nullptr};
        for (bool plus : {false, true}) {
          args.one_plus_weight = plus;
          compare(args, ref::rms_norm, cpu::rms_norm, size(rows * width), size(width), cpu);
        }
      }
    }
  }
}

TEST_CASE("rms_norm where squares leave fp32: the result is right, not 0") {
  Cpu cpu(1);
  for (float x : {3e30f, -2e-30f, 0.0f}) {
    CAPTURE(x);
    const std::vector<float> in(37, x), weight(37, 1.0f);
    std::vector<float> out(37, NAN);
    for_each_instruction_set([&](const std::string&) {
      cpu::rms_norm({1, 37, Format::fp32, in.data(), weight.data(), 0, false, out.data()}, cpu);
      if (x == 0) {
        CHECK(std::isnan(out[36]));  // 0 / 0
      } else {
        CHECK(out[36] == doctest::Approx(x > 0 ? 1 : -1).epsilon(1e-6));
      }
    });
  }
}

TEST_CASE("rope on every instruction set, in place too") {
  Random random(2);
  Cpu cpu(2);
  for (Format format : kFormats) {
    for (const auto& [dim, rotary] : {std::pair{128, 128}, {80, 32}, {18, 14}, {2, 2}, {64, 0}}) {
      for (int tokens : {0, 1, 9}) {
        const int heads = random.between(1, 5);
        std::vector<std::int32_t> positions(size(tokens));
        for (auto& position : positions) position = random.below(131072);
        std::vector<float> frequencies(size(rotary / 2));
        rope_frequencies({.rotary_dim = rotary, .theta = 5e5}, frequencies.data());
        const std::size_t elements = size(tokens * heads * dim);
        const Buffer x = normal_tensor(random, elements, format, 1, bytes_of(format));
        const Rope args{
            tokens, heads, dim, rotary, format, x.data(), positions.data(), frequencies.data(),
            nullptr};
        Rope out_of_place = args;
        compare(out_of_place, ref::rope, cpu::rope, elements, 2, cpu);

        Buffer apart(elements * bytes_of(format)), same(elements * bytes_of(format));
        std::memcpy(same.data(), x.data(), x.bytes());
        Rope rope = args;
        rope.out = apart.data();
        cpu::rope(rope, cpu);
        rope.x = rope.out = same.data();
        cpu::rope(rope, cpu);
        CHECK(std::memcmp(apart.data(), same.data(), apart.bytes()) == 0);
      }
    }
  }
}

TEST_CASE("gated units on every instruction set") {
  Random random(3);
  Cpu cpu(2);
  for (Format format : kFormats) {
    for (Activation activation : {Activation::silu, Activation::gelu_tanh}) {
      for (int width : {1, 33, 20000}) {
        const int rows = width == 20000 ? 2 : random.between(0, 4);
        const std::size_t elements = size(rows * width);
        const Buffer gate = normal_tensor(random, elements, format, 6, bytes_of(format));
        const Buffer up = normal_tensor(random, elements, format);
        compare(GatedUnit{rows, width, format, activation, gate.data(), up.data(), nullptr},
                ref::gated_unit, cpu::gated_unit, elements, 1, cpu);
      }
    }
  }
}

TEST_CASE("gated units at the ends of the range") {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const std::vector<float> gate{-kInf, kInf, NAN, 1e30f, -1e30f, -150, 150, -0.0f};
  const std::vector<float> up(8, 1.0f);
  Cpu cpu(1);
  for (Activation activation : {Activation::silu, Activation::gelu_tanh}) {
    for_each_instruction_set([&](const std::string& name) {
      INFO(name);
      std::vector<float> out(8), expected(8);
      GatedUnit args{1, 8, Format::fp32, activation, gate.data(), up.data(), out.data()};
      cpu::gated_unit(args, cpu);
      CHECK(std::isnan(out[0]));  // -inf * 0, as in PyTorch
      CHECK(out[1] == kInf);
      CHECK(std::isnan(out[2]));
      CHECK(out[3] == 1e30f);
      CHECK(out[4] == 0);
      CHECK(out[5] == 0);
      CHECK(out[6] == 150);
      CHECK(out[7] == 0);
    });
  }
}

TEST_CASE("embedding and add on every instruction set") {
  Random random(4);
  Cpu cpu(2);
  for (Format format : kFormats) {
    for (int width : {1, 19, 640}) {
      const int vocabulary = random.between(1, 50), tokens = random.between(0, 40);
      std::vector<std::int32_t> ids(size(tokens));
      for (auto& id : ids) id = random.below(vocabulary);
      const Buffer table =
          normal_tensor(random, size(vocabulary * width), format, 1, bytes_of(format));
      for (float scale : {1.0f, std::sqrt(640.0f)}) {
        compare(
            Embedding{tokens, width, vocabulary, format, ids.data(), table.data(), scale, nullptr},
            ref::embedding, cpu::embedding, size(tokens * width), 1, cpu);
      }
    }
    for (int n : {0, 1, 31, 40001}) {
      const Buffer a = normal_tensor(random, size(n), format, 1, bytes_of(format));
      const Buffer b = normal_tensor(random, size(n), format, 100);
      compare(Add{n, format, a.data(), b.data(), nullptr}, ref::add, cpu::add, size(n), 1, cpu);
    }
  }
}

TEST_CASE("a NaN stays in its row, or its element") {
  Cpu cpu(1);
  std::vector<float> x(40, 1.0f), out(40);
  x[3] = NAN;
  const std::vector<float> weight(20, 1.0f);
  cpu::rms_norm({2, 20, Format::fp32, x.data(), weight.data(), 1e-6f, false, out.data()}, cpu);
  for (std::size_t i = 0; i < 40; ++i) CHECK(std::isnan(out[i]) == (i < 20));
  cpu::add({40, Format::fp32, x.data(), x.data(), out.data()}, cpu);
  for (std::size_t i = 0; i < 40; ++i) CHECK(std::isnan(out[i]) == (i == 3));
}

TEST_CASE("bad arguments of layer operations are named and thrown") {
  float data[8] = {};
  const std::int32_t ids[] = {0, 3};
  Cpu cpu(1);
  const auto refused = [&](auto args, auto reference, auto backend) {
    CHECK(problem(args) != nullptr);
    CHECK_THROWS_AS(reference(args), std::invalid_argument);
    CHECK_THROWS_AS(backend(args, cpu), std::invalid_argument);
  };
  RmsNorm norm{1, 8, Format::fp32, data, data, 1e-6f, false, data};
  CHECK(problem(norm) == nullptr);
  for (int i = 0; i < 4; ++i) {
    RmsNorm bad = norm;
    if (i == 0) bad.rows = -1;
    if (i == 1) bad.x = nullptr;
    if (i == 2) bad.epsilon = NAN;
    if (i == 3) bad.out = nullptr;
    refused(bad, ref::rms_norm, cpu::rms_norm);
  }
  const Rope rope{2, 1, 4, 4, Format::fp32, data, ids, data, data};
  CHECK(problem(rope) == nullptr);
  for (int i = 0; i < 4; ++i) {
    Rope bad = rope;
    if (i == 0) bad.rotary_dim = 3;
    if (i == 1) bad.rotary_dim = 6;
    if (i == 2) bad.positions = nullptr;
    if (i == 3) bad.heads = -1;
    refused(bad, ref::rope, cpu::rope);
  }
  const Embedding embedding{2, 2, 4, Format::fp32, ids, data, 1, data};
  CHECK(problem(embedding) == nullptr);
  Embedding beyond = embedding;
  beyond.vocabulary = 3;
  refused(beyond, ref::embedding, cpu::embedding);
  refused(GatedUnit{1, 8, Format::fp32, Activation::silu, data, nullptr, data}, ref::gated_unit,
          cpu::gated_unit);
  refused(Add{-1, Format::fp32, data, data, data}, ref::add, cpu::add);

  CHECK(problem(RopeFrequencies{.rotary_dim = 7}) != nullptr);
  CHECK(problem(RopeFrequencies{.rotary_dim = 8, .theta = 0}) != nullptr);
  CHECK(problem(RopeFrequencies{.rotary_dim = 8, .scaling = RopeScaling::linear, .factor = 0}) !=
        nullptr);
  CHECK(problem(RopeFrequencies{.rotary_dim = 8,
                                .scaling = RopeScaling::llama3,
                                .low_frequency_factor = 4,
                                .high_frequency_factor = 4}) != nullptr);
  CHECK_THROWS_AS(rope_frequencies({.rotary_dim = -2}, data), std::invalid_argument);
}

}  // namespace
}  // namespace kvlane::kernels
