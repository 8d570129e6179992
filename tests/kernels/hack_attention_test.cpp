// HACK's attention: the reference against formulas that are written otherwise, the CPU against the
// reference on every instruction set.

#include <doctest/doctest.h>

#include <numeric>

#include "tests/kernels/hack_support.h"
#include "tests/support/instruction_sets.h"

namespace kvlane::kernels {
namespace {

using testing::allowed_error;
using testing::Buffer;
using testing::expect;
using testing::Expected;
using testing::for_each_instruction_set;
using testing::normal_tensor;
using testing::Random;
using testing::run_seed;
using testing::size;
using testing::Store;
using testing::worst_error;

// Sequences of random KV with a random query, quantised by the reference.
struct Case {
  Case(Random& random, const HackShape& of, const std::vector<std::int32_t>& kv_tokens, int group)
      : shape(with_capacity(of, kv_tokens)),
        tokens(kv_tokens),
        store(shape, static_cast<int>(kv_tokens.size())),
        query(normal_tensor(random, query_elements(group), shape.format, 1, 2)),
        elements(query_elements(group)) {
    const int all = std::accumulate(tokens.begin(), tokens.end(), 0);
    const std::size_t n = size(all * shape.kv_heads * shape.head_dim);
    const Buffer keys = normal_tensor(random, n, shape.format, 1.5f);
    const Buffer values = normal_tensor(random, n, shape.format);
    const std::vector<std::int32_t> none(tokens.size(), 0);
    ref::hack_append({shape, static_cast<int>(tokens.size()), none.data(), tokens.data(),
                      keys.data(), values.data(), store.data()});
    args = {shape,
            static_cast<int>(tokens.size()),
            group * shape.kv_heads,
            query.data(),
            store.data(),
            tokens.data(),
            1 / std::sqrt(static_cast<float>(shape.head_dim)),
            nullptr};
  }
  Case(const Case&) = delete;
  Case& operator=(const Case&) = delete;

  static HackShape with_capacity(HackShape shape, const std::vector<std::int32_t>& tokens) {
    shape.capacity = *std::max_element(tokens.begin(), tokens.end());
    return shape;
  }
  std::size_t query_elements(int group) const {
    return tokens.size() * size(group * shape.kv_heads * shape.head_dim);
  }

  HackShape shape;
  std::vector<std::int32_t> tokens;
  Store store;
  Buffer query;
  std::size_t elements;
  HackAttention args;
};

// Runs into a poisoned, unaligned output.
template <class Run>
Buffer result(HackAttention args, std::size_t elements, const Run& run) {
  Buffer out(elements * 2, 2);
  args.out = out.data();
  run(args);
  return out;
}

HackShape make_shape(int bits, int partition, int head_dim, Format format, int kv_heads = 2) {
  HackShape shape;
  shape.bits = bits;
  shape.partition = partition;
  shape.head_dim = head_dim;
  shape.format = format;
  shape.kv_heads = kv_heads;
  return shape;
}

template <class Body>
void for_each_shape(const Body& body) {
  for (int bits : {2, 4, 8}) {
    for (int head_dim : {64, 128, 256}) {
      for (int partition : {32, 64, 128}) {
        if (head_dim % partition == 0) body(bits, partition, head_dim);
      }
    }
  }
}

const std::byte* at_byte(const Buffer& buffer, std::size_t at) {
  return static_cast<const std::byte*>(buffer.data()) + at;
}

// Worst error of row `row` of a result, relative to the largest value of that row.
double row_error(const Buffer& ours, const std::vector<double>& expected, Format format,
                 std::size_t row) {
  double worst = 0, largest = 0;
  for (std::size_t c = 0; c < expected.size(); ++c) {
    const double value = load(ours.data(), format, row * expected.size() + c);
    if (!std::isfinite(value)) return INFINITY;
    worst = std::max(worst, std::fabs(value - expected[c]));
    largest = std::max(largest, std::fabs(expected[c]));
  }
  return largest > 0 ? worst / largest : worst;
}

TEST_CASE("both references are what the formulas say, their difference within quantisation's") {
  Random random(20);
  for_each_shape([&](int bits, int partition, int head_dim) {
    INFO(run_seed());
    CAPTURE(bits);
    CAPTURE(partition);
    CAPTURE(head_dim);
    const Format format = random.below(2) == 0 ? Format::bf16 : Format::fp16;
    HackShape shape = make_shape(bits, partition, head_dim, format);
    shape.sinks = random.below(6);
    const Case c(random, shape, {2 * partition + random.between(0, 50), random.between(1, 40)}, 2);
    const Buffer integer = result(c.args, c.elements, ref::hack_attention);
    const Buffer dequantised = result(c.args, c.elements, ref::hack_dequantise_attention);
    const double rounding = format == Format::bf16 ? 0x1p-8 : 0x1p-11;
    for (std::size_t row = 0; row < 8; ++row) {
      const Expected expected = expect(c.args, row / 4, row % 4);
      CHECK(row_error(integer, expected.integer, format, row) <= rounding);
      CHECK(row_error(dequantised, expected.dequantised, format, row) <= rounding);
      double difference = 0;
      for (std::size_t i = 0; i < expected.integer.size(); ++i) {
        difference = std::max(difference, std::fabs(expected.integer[i] - expected.dequantised[i]));
      }
      CHECK(difference <= expected.quantisation);
      if (row < 4) CHECK(difference > 0);
    }
  });
}

TEST_CASE("dequantise attention on every instruction set") {
  Random random(21);
  Cpu cpu(3);
  for_each_shape([&](int bits, int partition, int head_dim) {
    INFO(run_seed());
    CAPTURE(bits);
    CAPTURE(partition);
    CAPTURE(head_dim);
    const Format format = random.below(2) == 0 ? Format::bf16 : Format::fp16;
    const int group = random.between(1, 9);
    CAPTURE(group);
    const Case c(random, make_shape(bits, partition, head_dim, format),
                 {random.between(1100, 1500), 0, 1, 4, 4 + partition, random.between(1, 300)},
                 group);
    const Buffer expected = result(c.args, c.elements, ref::hack_dequantise_attention);
    for_each_instruction_set([&](const std::string& name) {
      INFO(name);
      const Buffer ours = result(c.args, c.elements, [&](const HackAttention& args) {
        cpu::hack_dequantise_attention(args, cpu);
      });
      CHECK(worst_error(ours.data(), expected.data(), format, c.elements) <=
            allowed_error(format, 1500 + size(head_dim)));
    });
  });
}

// Where no operand lies so near a tie that fp32 could round it to another integer, the integers are
// the reference's and only fp32's error is left.
TEST_CASE("integer attention on every instruction set, no operand near a tie") {
  Random random(22);
  Cpu cpu(2);
  for_each_shape([&](int bits, int partition, int head_dim) {
    INFO(run_seed());
    CAPTURE(bits);
    CAPTURE(partition);
    CAPTURE(head_dim);
    int checked = 0;
    for (int attempt = 0; attempt < 200 && checked < 6; ++attempt) {
      const Format format = attempt % 2 == 0 ? Format::bf16 : Format::fp16;
      const int group = random.between(1, 5);
      const Case c(random, make_shape(bits, partition, head_dim, format, 1),
                   {4 + partition + random.between(0, 9)}, group);
      std::vector<bool> clear(size(group));
      for (std::size_t row = 0; row < size(group); ++row) {
        clear[row] = expect(c.args, 0, row).tie > 1;
      }
      if (std::count(clear.begin(), clear.end(), true) == 0) continue;
      const Buffer expected = result(c.args, c.elements, ref::hack_attention);
      for_each_instruction_set([&](const std::string& name) {
        INFO(name);
        const Buffer ours = result(
            c.args, c.elements, [&](const HackAttention& args) { cpu::hack_attention(args, cpu); });
        for (std::size_t row = 0; row < size(group); ++row) {
          if (!clear[row]) continue;
          const std::size_t at = row * size(head_dim) * 2;
          CHECK(worst_error(at_byte(ours, at), at_byte(expected, at), format, size(head_dim)) <=
                allowed_error(format, size(partition + head_dim)));
        }
      });
      checked += static_cast<int>(std::count(clear.begin(), clear.end(), true));
    }
    CHECK(checked >= 6);
  });
}

TEST_CASE("integer attention over long and short sequences is within quantisation's error") {
  Random random(23);
  Cpu cpu(3);
  for_each_shape([&](int bits, int partition, int head_dim) {
    INFO(run_seed());
    CAPTURE(bits);
    CAPTURE(partition);
    CAPTURE(head_dim);
    const Format format = random.below(2) == 0 ? Format::bf16 : Format::fp16;
    const int group = random.between(1, 9);
    const Case c(random, make_shape(bits, partition, head_dim, format, 1),
                 {random.between(1100, 1500), 0, 1, 3, 4, 4 + partition, 3 + partition}, group);
    const double rounding = allowed_error(format, 1500 + size(head_dim));
    for_each_instruction_set([&](const std::string& name) {
      INFO(name);
      const Buffer ours = result(
          c.args, c.elements, [&](const HackAttention& args) { cpu::hack_attention(args, cpu); });
      for (std::size_t s = 0; s < c.tokens.size(); ++s) {
        CAPTURE(c.tokens[s]);
        const std::size_t row = s * size(group) + size(random.below(group));
        if (c.tokens[s] == 0) {
          const std::vector<double> zeros(size(head_dim), 0.0);
          CHECK(row_error(ours, zeros, format, row) == 0);
          continue;
        }
        const Expected expected = expect(c.args, s, row % size(group));
        double largest = 0;
        for (double value : expected.integer) largest = std::max(largest, std::fabs(value));
        CHECK(row_error(ours, expected.dequantised, format, row) * largest <=
              2 * expected.quantisation + rounding * largest);
      }
    });
  });
}

TEST_CASE("results do not depend on the number of threads") {
  Random random(24);
  Cpu one(1), four(4);
  const Case c(random, make_shape(2, 64, 128, Format::bf16), {2500, 700, 64}, 4);
  for (bool integer : {true, false}) {
    const auto run = [&](Cpu& cpu) {
      return result(c.args, c.elements, [&](const HackAttention& args) {
        integer ? cpu::hack_attention(args, cpu) : cpu::hack_dequantise_attention(args, cpu);
      });
    };
    const Buffer a = run(one), b = run(four);
    CHECK(std::memcmp(a.data(), b.data(), a.bytes()) == 0);
  }
}

TEST_CASE("constant operands: scales and steps of zero") {
  Cpu cpu(1);
  HackShape shape = make_shape(2, 32, 64, Format::bf16, 1);
  shape.sinks = 0;
  shape.capacity = 64;
  Buffer keys(64 * 64 * 2), values(64 * 64 * 2), query(64 * 2);
  for (std::size_t i = 0; i < 64 * 64; ++i) {
    store(keys.data(), shape.format, i, 0.5f);
    store(values.data(), shape.format, i, static_cast<float>(i / 64 < 32 ? 1 : 3));
  }
  for (std::size_t i = 0; i < 64; ++i) store(query.data(), shape.format, i, -2.0f);
  const Store sequence(shape, 1);
  const std::int32_t none = 0, all = 64;
  ref::hack_append({shape, 1, &none, &all, keys.data(), values.data(), sequence.data()});
  const HackAttention args{shape, 1, 1, query.data(), sequence.data(), &all, 1, nullptr};
  for_each_instruction_set([&](const std::string& name) {
    INFO(name);
    for (auto attend : {cpu::hack_attention, cpu::hack_dequantise_attention}) {
      const Buffer out = result(args, 64, [&](const HackAttention& to) { attend(to, cpu); });
      for (std::size_t c = 0; c < 64; ++c) CHECK(load(out.data(), shape.format, c) == 2.0f);
    }
  });
}

TEST_CASE("one token takes all of the weight, however small its logit") {
  Cpu cpu(1);
  HackShape shape = make_shape(2, 32, 64, Format::bf16, 1);
  shape.capacity = 1;
  Buffer keys(64 * 2), values(64 * 2), query(64 * 2);
  for (std::size_t c = 0; c < 64; ++c) {
    store(keys.data(), shape.format, c, -1e16f);
    store(values.data(), shape.format, c, 3.0f);
    store(query.data(), shape.format, c, 1e16f);
  }
  const Store sequence(shape, 1);
  const std::int32_t none = 0, one = 1;
  ref::hack_append({shape, 1, &none, &one, keys.data(), values.data(), sequence.data()});
  const HackAttention args{shape, 1, 1, query.data(), sequence.data(), &one, 1, nullptr};
  for_each_instruction_set([&](const std::string& name) {
    INFO(name);
    const Buffer out =
        result(args, 64, [&](const HackAttention& to) { cpu::hack_attention(to, cpu); });
    for (std::size_t c = 0; c < 64; ++c) CHECK(load(out.data(), shape.format, c) == 3.0f);
  });
}

TEST_CASE("NaN and infinity are never silent") {
  Random random(25);
  Cpu cpu(2);
  const HackShape of = make_shape(2, 64, 128, Format::bf16, 1);
  using Attend = void (*)(const HackAttention&, Cpu&);
  const Attend backends[] = {
      [](const HackAttention& args, Cpu&) { ref::hack_attention(args); },
      [](const HackAttention& args, Cpu&) { ref::hack_dequantise_attention(args); },
      cpu::hack_attention, cpu::hack_dequantise_attention};
  // nan(row, channel) is where the output must be NaN; elsewhere it must not.
  const auto check = [&](const Case& c, const auto& nan) {
    for_each_instruction_set([&](const std::string& name) {
      INFO(name);
      for (Attend attend : backends) {
        const Buffer out =
            result(c.args, c.elements, [&](const HackAttention& args) { attend(args, cpu); });
        bool as_said = true;
        for (std::size_t i = 0; i < c.elements; ++i) {
          as_said &= std::isnan(load(out.data(), Format::bf16, i)) == nan(i / 128, i % 128);
        }
        CHECK(as_said);
      }
    });
  };
  for (float bad : {NAN, INFINITY, -INFINITY}) {
    CAPTURE(bad);
    INFO(run_seed());
    {
      Case c(random, of, {200, 3, 1300}, 3);  // one query head
      store(c.query.data(), Format::bf16, 4 * 128 + 5, bad);
      check(c, [](std::size_t row, std::size_t) { return row == 4; });
    }
    for (int token : {1, 70, 199}) {  // a sink, a partition, the open block
      CAPTURE(token);
      for (bool keys : {true, false}) {
        CAPTURE(keys);
        Case c(random, of, {200}, 2);
        const std::size_t n = 200 * 128;
        Buffer clean = normal_tensor(random, n, Format::bf16);
        Buffer spoilt = normal_tensor(random, n, Format::bf16);
        store(spoilt.data(), Format::bf16, size(token) * 128 + 3, bad);
        const std::int32_t none = 0;
        ref::hack_append({c.shape, 1, &none, c.tokens.data(), keys ? spoilt.data() : clean.data(),
                          keys ? clean.data() : spoilt.data(), c.store.data()});
        check(c, [&](std::size_t, std::size_t channel) {
          if (keys) return true;
          // An infinite value in 16 bit gives an infinite output.
          if (token != 70) return channel == 3 && std::isnan(bad);
          return channel < 64;
        });
      }
    }
  }
}

TEST_CASE("bad arguments of HACK's attention are named and thrown") {
  Random random(26);
  Cpu cpu(1);
  const Case c(random, make_shape(2, 32, 64, Format::bf16), {70}, 2);
  Buffer out(c.elements * 2);
  HackAttention fine = c.args;
  fine.out = out.data();
  CHECK(problem(fine) == nullptr);
  const std::int32_t many = 71, negative = -1;
  for (int i = 0; i < 8; ++i) {
    HackAttention bad = fine;
    if (i == 0) bad.query_heads = 3;
    if (i == 1) bad.kv_tokens = &many;
    if (i == 2) bad.kv_tokens = &negative;
    if (i == 3) bad.store = nullptr;
    if (i == 4) bad.scale = NAN;
    if (i == 5) bad.query = nullptr;
    if (i == 6) bad.shape.bits = 5;
    if (i == 7) bad.store = static_cast<const std::byte*>(bad.store) + 2;
    CHECK(problem(bad) != nullptr);
    CHECK_THROWS_AS(ref::hack_attention(bad), std::invalid_argument);
    CHECK_THROWS_AS(ref::hack_dequantise_attention(bad), std::invalid_argument);
    CHECK_THROWS_AS(cpu::hack_attention(bad, cpu), std::invalid_argument);
    CHECK_THROWS_AS(cpu::hack_dequantise_attention(bad, cpu), std::invalid_argument);
  }
  HackAttention none = fine;
  none.sequences = 0;
  cpu::hack_attention(none, cpu);
  ref::hack_attention(none);
}

}  // namespace
}  // namespace kvlane::kernels
