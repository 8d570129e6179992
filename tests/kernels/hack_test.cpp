// HACK's store: sizes against the formula and measured sizes, codes against the bound of their
// error, appends in any pieces and on every instruction set against the reference.

#include <doctest/doctest.h>

#include <numeric>

#include "tests/kernels/hack_support.h"
#include "tests/support/instruction_sets.h"

namespace kvlane::kernels {
namespace {

using testing::Buffer;
using testing::for_each_instruction_set;
using testing::normal_tensor;
using testing::Random;
using testing::read_side;
using testing::run_seed;
using testing::Side;
using testing::size;
using testing::Store;

using Append = void (*)(const HackAppend&, Cpu&);

void by_reference(const HackAppend& args, Cpu&) { ref::hack_append(args); }

HackShape random_shape(Random& random) {
  HackShape shape;
  shape.bits = 2 << random.below(3);
  shape.head_dim = 64 << random.below(3);
  do {
    shape.partition = 32 << random.below(3);
  } while (shape.head_dim % shape.partition != 0);
  shape.sinks = random.below(2) == 0 ? 4 : random.below(9);
  shape.kv_heads = random.between(1, 3);
  shape.format = random.below(2) == 0 ? Format::bf16 : Format::fp16;
  return shape;
}

struct Tensors {
  Tensors(Random& random, const HackShape& shape, int tokens)
      : row(size(shape.kv_heads) * size(shape.head_dim) * 2),
        keys(normal_tensor(random, size(tokens) * row / 2, shape.format, 2, 2)),
        values(normal_tensor(random, size(tokens) * row / 2, shape.format, 0.5, 2)) {}
  std::size_t row;  // bytes of a token
  Buffer keys, values;
};

// One sequence in one store, appended in pieces.
void fill(const HackShape& shape, const Tensors& tensors, const std::vector<int>& pieces,
          Append append, Cpu& cpu, std::byte* store) {
  std::int32_t first = 0;
  for (std::int32_t piece : pieces) {
    const std::size_t skip = size(first) * tensors.row;
    append({shape, 1, &first, &piece, static_cast<const std::byte*>(tensors.keys.data()) + skip,
            static_cast<const std::byte*>(tensors.values.data()) + skip, store},
           cpu);
    first += piece;
  }
}

// The bytes that count of two stores with `tokens` tokens are the same.
void check_same(const HackShape& shape, int tokens, const std::byte* a, const std::byte* b) {
  const HackLayout layout(shape);
  const std::size_t row = layout.head_dim * 2;
  const int quantised = hack_quantised_tokens(shape, tokens);
  const auto same = [&](std::size_t at, std::size_t bytes) {
    CHECK(std::memcmp(a + at, b + at, bytes) == 0);
  };
  for (std::size_t head = 0; head < layout.kv_heads; ++head) {
    const std::size_t exact = layout.exact(head);
    const std::size_t sinks = std::min(size(tokens), layout.sinks) * row;
    const std::size_t open = size(tokens - quantised) * row - sinks;
    same(exact, sinks);
    same(exact + layout.sink_values, sinks);
    same(exact + layout.open_keys, open);
    same(exact + layout.open_values, open);
  }
  const std::size_t from = layout.quantised(0, 0);
  same(from, layout.quantised(size(quantised / shape.partition), 0) - from);
}

TEST_CASE("bytes an element are bits/8 + (4 + s)/partition, beside the tokens in 16 bit") {
  for (int bits : {2, 4, 8}) {
    for (int partition : {32, 64, 128}) {
      HackShape shape;
      shape.bits = bits;
      shape.partition = partition;
      shape.kv_heads = 8;
      shape.head_dim = 128;
      shape.capacity = 100000;
      for (int tokens : {0, 1, 4, 5, 3 + partition, 4 + partition, 5 + partition, 4096, 99999}) {
        const int quantised = tokens < 4 ? 0 : (tokens - 4) / partition * partition;
        CHECK(hack_quantised_tokens(shape, tokens) == quantised);
        const double s = partition * ((1 << bits) - 1) < 256 ? 1 : 2;
        const double elements = 2.0 * 8 * 128;
        const double expected = elements * (quantised * (bits / 8.0 + (4 + s) / partition) +
                                            (tokens - quantised) * 2.0);
        CHECK(static_cast<double>(hack_sent_bytes(shape, tokens)) == expected);
      }
    }
  }
}

TEST_CASE("Qwen3-8B at 4096 tokens takes the MiB that HACK's authors measured") {
  for (const auto& [partition, mib] : {std::pair{32, 121}, {64, 102}, {128, 101}}) {
    HackShape shape;
    shape.partition = partition;
    shape.kv_heads = 8;
    shape.head_dim = 128;
    const double bytes = 36.0 * static_cast<double>(hack_sent_bytes(shape, 4096));
    CHECK(std::lround(bytes / (1 << 20)) == mib);
  }
}

TEST_CASE("at 16K tokens, partitions of 64: at most a fifth of bf16") {
  HackShape shape;
  shape.kv_heads = 8;
  shape.head_dim = 128;
  CHECK(static_cast<double>(hack_sent_bytes(shape, 16384)) <= 0.2 * 2 * 8 * 128 * 16384 * 2);
}

TEST_CASE("every code is within scale / 2 of its value, every sum is that of its codes") {
  INFO(run_seed());
  Random random(10);
  Cpu cpu(1);
  for (int round = 0; round < 12; ++round) {
    HackShape shape = random_shape(random);
    shape.capacity = shape.sinks + 2 * shape.partition + 7;
    const Tensors tensors(random, shape, shape.capacity);
    const Store store(shape, 1);
    fill(shape, tensors, {shape.capacity}, by_reference, cpu, store.data());
    const HackLayout layout(shape);
    const std::size_t n = layout.partition, dim = layout.head_dim;
    for (std::size_t head = 0; head < layout.kv_heads; ++head) {
      for (bool keys : {true, false}) {
        const Side side = read_side(shape, store.data(), shape.capacity, head, keys);
        const Buffer& tensor = keys ? tensors.keys : tensors.values;
        double worst = 0;
        bool exact = true;
        for (std::size_t t = 0; t < size(shape.capacity); ++t) {
          for (std::size_t c = 0; c < dim; ++c) {
            const double x =
                load(tensor.data(), shape.format, (t * layout.kv_heads + head) * dim + c);
            const Side::Value& value = side.at(t, c);
            if (value.exact) {
              exact &= value.value == x;
            } else {
              worst = std::max(worst, std::fabs(value.value - x) / value.scale);
            }
          }
        }
        CHECK(exact);
        CHECK(worst <= 0.5 + 1e-5);
        CHECK(worst > 0.4);  // 64 tokens and more use the whole range

        for (std::size_t part = 0; part < 2; ++part) {
          for (std::size_t i = 0; i < dim; ++i) {
            double sum = 0;
            for (std::size_t j = 0; j < n; ++j) {
              const std::size_t token = part * n + layout.sinks + (keys ? i % n : j);
              sum += side.at(token, keys ? i / n * n + j : i).code;
            }
            std::uint16_t stored = 0;
            std::memcpy(&stored,
                        store.data() + layout.quantised(part, head) + (keys ? 0 : layout.values) +
                            layout.sums + i * layout.sum_bytes,
                        layout.sum_bytes);
            CHECK(stored == sum);
          }
        }
      }
    }
  }
}

TEST_CASE("append writes the reference's bytes on every instruction set") {
  Random random(11);
  Cpu cpu(2);
  for (int round = 0; round < 10; ++round) {
    INFO(run_seed());
    HackShape shape = random_shape(random);
    shape.capacity = random.below(2) == 0 ? shape.sinks + 3 * shape.partition
                                          : random.between(0, 4 * shape.partition);
    const int sequences = random.between(1, 3);
    std::vector<std::int32_t> before(size(sequences)), after(size(sequences)),
        none(size(sequences), 0);
    for (std::size_t s = 0; s < size(sequences); ++s) {
      before[s] = random.between(0, shape.capacity);
      after[s] = random.between(0, shape.capacity - before[s]);
    }
    const int first = std::accumulate(before.begin(), before.end(), 0);
    const int second = std::accumulate(after.begin(), after.end(), 0);
    const Tensors one(random, shape, first), two(random, shape, second);
    const auto append = [&](Append backend, std::byte* store) {
      backend(
          {shape, sequences, none.data(), before.data(), one.keys.data(), one.values.data(), store},
          cpu);
      backend({shape, sequences, before.data(), after.data(), two.keys.data(), two.values.data(),
               store},
              cpu);
    };
    const Store expected(shape, sequences);
    append(by_reference, expected.data());
    for_each_instruction_set([&](const std::string& name) {
      INFO(name);
      const Store store(shape, sequences);
      append(cpu::hack_append, store.data());
      for (std::size_t s = 0; s < size(sequences); ++s) {
        const std::size_t at = s * hack_sequence_bytes(shape);
        check_same(shape, before[s] + after[s], store.data() + at, expected.data() + at);
      }
    });
  }
}

TEST_CASE("token by token, in random pieces or at once: the same bytes") {
  Random random(12);
  Cpu cpu(2);
  for (int round = 0; round < 6; ++round) {
    INFO(run_seed());
    HackShape shape = random_shape(random);
    shape.capacity = shape.sinks + 2 * shape.partition + random.below(shape.partition);
    const Tensors tensors(random, shape, shape.capacity);
    std::vector<int> pieces;
    for (int left = shape.capacity; left > 0; left -= pieces.back()) {
      pieces.push_back(random.between(1, std::min(left, 50)));
    }
    for (Append append : {Append(by_reference), Append(cpu::hack_append)}) {
      const Store once(shape, 1), tokens(shape, 1), random_pieces(shape, 1);
      fill(shape, tensors, {shape.capacity}, append, cpu, once.data());
      fill(shape, tensors, std::vector<int>(size(shape.capacity), 1), append, cpu, tokens.data());
      fill(shape, tensors, pieces, append, cpu, random_pieces.data());
      check_same(shape, shape.capacity, tokens.data(), once.data());
      check_same(shape, shape.capacity, random_pieces.data(), once.data());
    }
  }
}

TEST_CASE("equal values, zeros of both signs and the ends of the range") {
  Cpu cpu(1);
  HackShape shape;
  shape.partition = 32;
  shape.sinks = 0;
  shape.kv_heads = 1;
  shape.head_dim = 64;
  shape.capacity = 32;
  const std::size_t elements = 32 * 64;
  const float huge = 0x1.fep127f;
  const std::pair<float, float> pairs[] = {{1.5f, 1.5f},      {0.0f, -0.0f},     {-0.0f, 0.0f},
                                           {0x1p-133f, 0.0f}, {-3e-38f, 3e-38f}, {huge, 0.0f},
                                           {huge, -huge},     {-huge, huge}};
  for (const auto& pair : pairs) {
    const float even = pair.first, odd = pair.second;
    CAPTURE(even);
    CAPTURE(odd);
    Buffer tensor(elements * 2);
    for (std::size_t i = 0; i < elements; ++i) {
      store(tensor.data(), shape.format, i, i % 2 == i / 64 % 2 ? even : odd);
    }
    const std::int32_t none = 0, all = 32;
    const Store expected(shape, 1);
    ref::hack_append({shape, 1, &none, &all, tensor.data(), tensor.data(), expected.data()});
    for_each_instruction_set([&](const std::string& name) {
      INFO(name);
      const Store ours(shape, 1);
      cpu::hack_append({shape, 1, &none, &all, tensor.data(), tensor.data(), ours.data()}, cpu);
      check_same(shape, 32, ours.data(), expected.data());
    });
    const Side side = read_side(shape, expected.data(), 32, 0, true);
    for (std::size_t i = 0; i < 4; ++i) {
      const double x = load(tensor.data(), shape.format, i), value = side.of[i].value;
      if (odd == -even && std::fabs(even) == huge) {
        CHECK(std::isnan(value));  // the range does not fit fp32
      } else {
        CHECK(value == doctest::Approx(x).epsilon(0.01));
      }
    }
  }
}

TEST_CASE("a partition with NaN or infinity becomes NaN, no other") {
  Random random(13);
  Cpu cpu(1);
  HackShape shape;
  shape.kv_heads = 1;
  shape.head_dim = 128;
  shape.capacity = 4 + 2 * 64;
  const std::size_t token = 4 + 64 + 9, channel = 70;
  for (float bad : {NAN, INFINITY, -INFINITY}) {
    const Tensors good(random, shape, shape.capacity);
    Tensors tensors(random, shape, shape.capacity);
    std::memcpy(tensors.keys.data(), good.keys.data(), good.keys.bytes());
    store(tensors.keys.data(), shape.format, token * 128 + channel, bad);
    store(tensors.values.data(), shape.format, token * 128 + channel, bad);
    const Store expected(shape, 1);
    fill(shape, tensors, {shape.capacity}, by_reference, cpu, expected.data());
    for_each_instruction_set([&](const std::string& name) {
      INFO(name);
      const Store ours(shape, 1);
      fill(shape, tensors, {shape.capacity}, cpu::hack_append, cpu, ours.data());
      check_same(shape, shape.capacity, ours.data(), expected.data());
    });
    for (bool keys : {true, false}) {
      const Side side = read_side(shape, expected.data(), shape.capacity, 0, keys);
      bool as_said = true;
      for (std::size_t t = 0; t < size(shape.capacity); ++t) {
        for (std::size_t c = 0; c < 128; ++c) {
          const bool shared = keys ? c == channel && t >= 4 + 64 : t == token && c >= 64;
          as_said &= std::isnan(side.at(t, c).value) == shared;
        }
      }
      CHECK(as_said);
    }
  }
}

TEST_CASE("bad shapes and appends are named and thrown") {
  HackShape good;
  good.kv_heads = 2;
  good.head_dim = 64;
  good.capacity = 100;
  CHECK(problem(good) == nullptr);
  const auto shape = [&](auto change) {
    HackShape changed = good;
    change(changed);
    return changed;
  };
  for (const HackShape& bad :
       {shape([](HackShape& s) { s.bits = 3; }), shape([](HackShape& s) { s.partition = 16; }),
        shape([](HackShape& s) { s.partition = 128; }), shape([](HackShape& s) { s.sinks = -1; }),
        shape([](HackShape& s) { s.kv_heads = 0; }), shape([](HackShape& s) { s.head_dim = 96; }),
        shape([](HackShape& s) { s.capacity = -1; }),
        shape([](HackShape& s) { s.format = Format::fp32; })}) {
    CHECK(problem(bad) != nullptr);
    CHECK_THROWS_AS(hack_sequence_bytes(bad), std::invalid_argument);
  }
  Cpu cpu(1);
  const Store store(good, 1);
  const Buffer tensor(200 * 128 * 2);
  const std::int32_t first = 10, tokens = 90;
  const HackAppend fine{good, 1, &first, &tokens, tensor.data(), tensor.data(), store.data()};
  CHECK(problem(fine) == nullptr);
  const std::int32_t many = 91, negative = -1;
  for (int i = 0; i < 6; ++i) {
    HackAppend bad = fine;
    if (i == 0) bad.tokens = &many;
    if (i == 1) bad.first = &negative;
    if (i == 2) bad.keys = nullptr;
    if (i == 3) bad.store = store.data() + 32;
    if (i == 4) bad.sequences = -1;
    if (i == 5) bad.tokens = nullptr;
    CHECK(problem(bad) != nullptr);
    CHECK_THROWS_AS(ref::hack_append(bad), std::invalid_argument);
    CHECK_THROWS_AS(cpu::hack_append(bad, cpu), std::invalid_argument);
  }
}

}  // namespace
}  // namespace kvlane::kernels
