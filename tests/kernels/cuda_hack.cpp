// HACK of the GPU's code: append against the reference's bytes, attention against the reference
// and, where operands round otherwise, against the error that quantising them may make.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "kernels/hack/cuda.h"
#include "tests/kernels/hack_support.h"
#include "tests/support/cuda_kv.h"

using namespace kvlane::kernels;
using namespace kvlane::kernels::testing;

namespace {

using Attend = void (*)(const HackAttention&, int, cuda::Workspace, cuda::Stream);
using Reference = void (*)(const HackAttention&);

// `turn` walks over all bits, partitions and head dimensions that go together.
HackShape shape_of(int turn, Random& random) {
  HackShape shape;
  const int bits[] = {2, 4, 8}, dims[] = {64, 128, 256}, partitions[] = {32, 64, 128};
  shape.bits = bits[turn % 3];
  shape.partition = partitions[(turn + turn / 3) % 3];
  shape.head_dim = std::max(dims[(turn + turn / 9) % 3], shape.partition);
  shape.format = random.below(2) == 0 ? Format::bf16 : Format::fp16;
  shape.sinks = random.below(3) == 0 ? 0 : random.between(1, 9);
  shape.kv_heads = random.between(1, 2);
  return shape;
}

int sum(const std::vector<std::int32_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), 0);
}

// K and V of some tokens, some of them not finite where asked.
struct Rows {
  Rows(Random& random, const HackShape& shape, int tokens, bool special = false)
      : elements(size(tokens * shape.kv_heads * shape.head_dim)),
        keys(normal_tensor(random, elements, shape.format, 1.5f)),
        values(normal_tensor(random, elements, shape.format)) {
    const float odd[] = {std::nanf(""), INFINITY, -INFINITY, -0.0f};
    for (int i = 0; special && elements > 0 && i < 3; ++i) {
      store(random.below(2) == 0 ? keys.data() : values.data(), shape.format,
            size(random.below(static_cast<int>(elements))), odd[random.below(4)]);
    }
  }
  std::size_t elements;
  Buffer keys, values;
};

// Poisoned as a whole, not uninitialised: places of the store that no token has are never written.
DeviceArray<std::byte> poisoned_store(const HackShape& shape, int sequences) {
  DeviceArray<std::byte> store(hack_sequence_bytes(shape) * size(sequences));
  cuda::fill(store.data(), 0xa5, store.size());
  return store;
}

void append_on_device(const HackShape& shape, const std::vector<std::int32_t>& first,
                      const std::vector<std::int32_t>& tokens, const Rows& rows,
                      const DeviceArray<std::byte>& store) {
  const DeviceArray<std::int32_t> device_first(first), device_tokens(tokens);
  const DeviceArray<std::byte> keys = to_device(rows.keys), values = to_device(rows.values);
  cuda::hack_append({shape, static_cast<int>(tokens.size()), device_first.data(),
                     device_tokens.data(), keys.data(), values.data(), store.data()},
                    *std::max_element(tokens.begin(), tokens.end()), nullptr);
  cuda::synchronize_device();
}

// The bytes that count of a sequence of n tokens.
bool same(const HackShape& shape, int n, const std::byte* a, const std::byte* b) {
  const HackLayout layout(shape);
  const std::size_t row = layout.head_dim * 2, quantised = size(hack_quantised_tokens(shape, n));
  const std::size_t sinks = std::min(size(n), layout.sinks), open = size(n) - sinks - quantised;
  bool equal = true;
  const auto compare = [&](std::size_t at, std::size_t bytes) {
    equal &= std::memcmp(a + at, b + at, bytes) == 0;
  };
  for (std::size_t head = 0; head < layout.kv_heads; ++head) {
    const std::size_t exact = layout.exact(head);
    compare(exact, sinks * row);
    compare(exact + layout.sink_values, sinks * row);
    compare(exact + layout.open_keys, open * row);
    compare(exact + layout.open_values, open * row);
    for (std::size_t part = 0; part < quantised / layout.partition; ++part) {
      compare(layout.quantised(part, head), layout.quantised_head);
    }
  }
  return equal;
}

// Sequences quantised by the reference, a query, and attention on the device.
struct Case {
  Case(Random& random, HackShape of, const std::vector<std::int32_t>& kv_tokens, int group,
       const Rows* rows = nullptr)
      : shape(with_capacity(of, kv_tokens)),
        tokens(kv_tokens),
        store(shape, static_cast<int>(kv_tokens.size())),
        heads(group * shape.kv_heads),
        elements(tokens.size() * size(heads * shape.head_dim)),
        query(normal_tensor(random, elements, shape.format)) {
    const Rows own(random, shape, rows == nullptr ? sum(tokens) : 0);
    const Rows& from = rows == nullptr ? own : *rows;
    const std::vector<std::int32_t> none(tokens.size(), 0);
    ref::hack_append({shape, static_cast<int>(tokens.size()), none.data(), tokens.data(),
                      from.keys.data(), from.values.data(), store.data()});
  }
  Case(const Case&) = delete;
  Case& operator=(const Case&) = delete;

  static HackShape with_capacity(HackShape shape, const std::vector<std::int32_t>& tokens) {
    shape.capacity = *std::max_element(tokens.begin(), tokens.end());
    return shape;
  }
  HackAttention arguments() const {
    return {shape,
            static_cast<int>(tokens.size()),
            heads,
            query.data(),
            store.data(),
            tokens.data(),
            1 / std::sqrt(static_cast<float>(shape.head_dim)),
            nullptr};
  }
  Buffer by(Reference reference) const {
    Buffer out(elements * 2);
    HackAttention args = arguments();
    args.out = out.data();
    reference(args);
    return out;
  }
  std::vector<std::byte> on_device(Attend attend) const {
    const std::size_t bytes = hack_sequence_bytes(shape) * tokens.size();
    const DeviceArray<std::byte> device_query = to_device(query), out(elements * 2);
    const DeviceArray<std::byte> device_store(
        std::vector<std::byte>(store.data(), store.data() + bytes));
    const DeviceArray<std::int32_t> device_tokens(tokens);
    HackAttention args = arguments();
    args.query = device_query.data();
    args.store = device_store.data();
    args.kv_tokens = device_tokens.data();
    args.out = out.data();
    const cuda::DeviceBuffer workspace(cuda::hack_attention_workspace(args, shape.capacity));
    attend(args, shape.capacity, workspace.workspace(), nullptr);
    return out.host();
  }

  HackShape shape;
  std::vector<std::int32_t> tokens;
  Store store;
  int heads;
  std::size_t elements;
  Buffer query;
};

// The dequantise variant rounds values and probabilities to the format on top of fp32's error; an
// output is a mean of values, so its error is relative to the largest of them (within 3 here).
double allowed_dequantised(const Case& c) {
  const double step = c.shape.format == Format::bf16 ? 0x1p-8 : 0x1p-11;
  return allowed_error(c.shape.format, size(c.shape.capacity + c.shape.head_dim)) + 6 * step;
}

// Over all query heads of a sequence; the largest of the errors that are not allowed, else 0.
double beyond_quantisation(const Case& c, const std::vector<std::byte>& ours, std::size_t sequence,
                           std::size_t head) {
  Buffer unused(c.elements * 2);
  HackAttention args = c.arguments();
  args.out = unused.data();
  const std::size_t dim = size(c.shape.head_dim), row = sequence * size(c.heads) + head;
  const Expected expected = expect(args, sequence, head);
  double largest = 0, worst = 0;
  for (double value : expected.integer) largest = std::max(largest, std::fabs(value));
  for (std::size_t i = 0; i < dim; ++i) {
    const double value = load(ours.data(), c.shape.format, row * dim + i);
    if (!std::isfinite(value)) return INFINITY;
    worst = std::max(worst, std::fabs(value - expected.dequantised[i]));
  }
  const double rounding = allowed_error(c.shape.format, size(c.tokens[sequence]) + dim);
  return std::max(0.0, worst - 2 * expected.quantisation - rounding * largest);
}

}  // namespace

TEST_CASE("append on a GPU writes the reference's bytes, NaN and infinity among them") {
  INFO("seed ", run_seed());
  Random random(101);
  int turn = random.below(27);
  for_each_order(orders(18), [&] {
    HackShape shape = shape_of(turn++, random);
    shape.capacity = shape.sinks + random.between(0, 3 * shape.partition);
    const int sequences = random.between(1, 3);
    std::vector<std::int32_t> none(size(sequences), 0), before(size(sequences)),
        after(size(sequences));
    for (std::size_t s = 0; s < size(sequences); ++s) {
      before[s] = random.between(0, shape.capacity);
      after[s] = random.between(0, shape.capacity - before[s]);
    }
    const Rows one(random, shape, sum(before), true), two(random, shape, sum(after), true);
    const Store expected(shape, sequences);
    ref::hack_append({shape, sequences, none.data(), before.data(), one.keys.data(),
                      one.values.data(), expected.data()});
    ref::hack_append({shape, sequences, before.data(), after.data(), two.keys.data(),
                      two.values.data(), expected.data()});
    const DeviceArray<std::byte> store = poisoned_store(shape, sequences);
    append_on_device(shape, none, before, one, store);
    append_on_device(shape, before, after, two, store);
    const std::vector<std::byte> ours = store.host();
    CAPTURE(shape.bits);
    CAPTURE(shape.partition);
    CAPTURE(shape.head_dim);
    for (std::size_t s = 0; s < size(sequences); ++s) {
      const std::size_t at = s * hack_sequence_bytes(shape);
      CHECK(same(shape, before[s] + after[s], ours.data() + at, expected.data() + at));
    }
  });
}

TEST_CASE("append on a GPU token by token is append at once") {
  INFO("seed ", run_seed());
  Random random(102);
  HackShape shape;
  shape.partition = 32;
  shape.head_dim = 64;
  shape.kv_heads = 1;
  shape.sinks = 2;
  shape.capacity = 40;
  const Rows rows(random, shape, 40);
  const Store expected(shape, 1);
  const std::int32_t none = 0, all = 40;
  ref::hack_append({shape, 1, &none, &all, rows.keys.data(), rows.values.data(), expected.data()});
  for_each_order(orders(3), [&] {
    const DeviceArray<std::byte> store = poisoned_store(shape, 1);
    for (std::int32_t t = 0; t < 40; ++t) {
      Rows row(random, shape, 1);
      std::memcpy(row.keys.data(), static_cast<const std::byte*>(rows.keys.data()) + t * 128, 128);
      std::memcpy(row.values.data(), static_cast<const std::byte*>(rows.values.data()) + t * 128,
                  128);
      append_on_device(shape, {t}, {1}, row, store);
    }
    CHECK(same(shape, 40, store.host().data(), expected.data()));
  });
}

TEST_CASE("dequantise attention on a GPU: every shape, odd lengths, in many orders") {
  INFO("seed ", run_seed());
  Random random(103);
  int turn = random.below(27);
  for_each_order(orders(27), [&] {
    const HackShape shape = shape_of(turn++, random);
    const int group = random.between(1, 9);
    const Case c(random, shape,
                 {random.between(1, 5 * shape.partition), 0, shape.sinks + shape.partition, 1},
                 group);
    CAPTURE(shape.bits);
    CAPTURE(shape.partition);
    CAPTURE(shape.head_dim);
    CAPTURE(group);
    CAPTURE(c.tokens[0]);
    const Buffer expected = c.by(ref::hack_dequantise_attention);
    const std::vector<std::byte> ours = c.on_device(cuda::hack_dequantise_attention);
    CHECK(worst_error(ours.data(), expected.data(), c.shape.format, c.elements) <=
          allowed_dequantised(c));
  });
}

TEST_CASE("integer attention on a GPU: every shape, odd lengths, in many orders") {
  INFO("seed ", run_seed());
  Random random(104);
  int turn = random.below(27), clear = 0;
  for_each_order(orders(27), [&] {
    const HackShape shape = shape_of(turn++, random);
    const int group = random.between(1, 9);
    const Case c(random, shape,
                 {random.between(1, 5 * shape.partition), 0, shape.sinks + shape.partition + 3},
                 group);
    CAPTURE(shape.bits);
    CAPTURE(shape.partition);
    CAPTURE(shape.head_dim);
    CAPTURE(group);
    CAPTURE(c.tokens[0]);
    const std::vector<std::byte> ours = c.on_device(cuda::hack_attention);
    const std::size_t dim = size(shape.head_dim), head = size(random.below(c.heads));
    CHECK(beyond_quantisation(c, ours, 0, head) == 0);
    for (std::size_t i = 0; i < dim; ++i) {  // no tokens
      CHECK(load(ours.data(), c.shape.format, (size(c.heads) + head) * dim + i) == 0);
    }
    // Where no operand lies so near a tie that fp32 could round it to another integer, only fp32's
    // error is left.
    const Buffer expected = c.by(ref::hack_attention);
    for (std::size_t h = 0; h < size(c.heads); ++h) {
      Buffer unused(c.elements * 2);
      HackAttention args = c.arguments();
      args.out = unused.data();
      if (expect(args, 2, h).tie <= 1) continue;
      ++clear;
      const std::size_t at = (2 * size(c.heads) + h) * dim * 2;
      CHECK(worst_error(ours.data() + at, static_cast<const std::byte*>(expected.data()) + at,
                        c.shape.format, dim) <=
            allowed_error(c.shape.format, size(shape.partition) + dim) + 0x1p-20);
    }
  });
  CHECK(clear > 0);
}

TEST_CASE("HACK on a GPU: constant operands, scales and steps of zero") {
  Random random(105);
  HackShape shape;
  shape.partition = 32;
  shape.sinks = 0;
  shape.head_dim = 64;
  shape.kv_heads = 1;
  Rows rows(random, shape, 64);
  for (std::size_t i = 0; i < rows.elements; ++i) {
    store(rows.keys.data(), shape.format, i, 0.5f);
    store(rows.values.data(), shape.format, i, i / 64 < 32 ? 1.0f : 3.0f);
  }
  Case c(random, shape, {64}, 3, &rows);
  for (std::size_t i = 0; i < c.elements; ++i) store(c.query.data(), shape.format, i, -2.0f);
  for (Attend attend : {cuda::hack_attention, cuda::hack_dequantise_attention}) {
    const std::vector<std::byte> ours = c.on_device(attend);
    for (std::size_t i = 0; i < c.elements; ++i) CHECK(load(ours.data(), shape.format, i) == 2.0f);
  }
}

TEST_CASE("HACK on a GPU: NaN and infinity are never silent") {
  INFO("seed ", run_seed());
  Random random(106);
  HackShape shape;
  shape.head_dim = 128;
  shape.kv_heads = 1;
  const auto check = [&](const Case& c, const auto& nan) {
    for (Attend attend : {cuda::hack_attention, cuda::hack_dequantise_attention}) {
      const std::vector<std::byte> ours = c.on_device(attend);
      bool as_said = true;
      for (std::size_t i = 0; i < c.elements; ++i) {
        as_said &= std::isnan(load(ours.data(), shape.format, i)) == nan(i / 128, i % 128);
      }
      CHECK(as_said);
    }
  };
  int turn = 0;
  for_each_order(orders(3), [&] {
    const float odd[] = {std::nanf(""), INFINITY, -INFINITY};
    const float bad = odd[turn++ % 3];
    CAPTURE(bad);
    {
      Case c(random, shape, {200, 3, 700}, 3);  // one query head
      store(c.query.data(), shape.format, 4 * 128 + 5, bad);
      check(c, [](std::size_t row, std::size_t) { return row == 4; });
    }
    for (int token : {1, 70, 199}) {  // a sink, a partition, the open block
      for (bool keys : {true, false}) {
        CAPTURE(token);
        CAPTURE(keys);
        Rows rows(random, shape, 200);
        store(keys ? rows.keys.data() : rows.values.data(), shape.format, size(token) * 128 + 3,
              bad);
        const Case c(random, shape, {200}, 2, &rows);
        check(c, [&](std::size_t, std::size_t channel) {
          if (keys) return true;
          // An infinite value in 16 bit gives an infinite output.
          if (token != 70) return channel == 3 && std::isnan(bad);
          return channel < 64;
        });
      }
    }
  });
}

TEST_CASE("HACK on a GPU: one long sequence, split over blocks") {
  INFO("seed ", run_seed());
  Random random(107);
  for_each_order(
      1,
      [&] {
        HackShape shape;
        shape.head_dim = 128;
        shape.kv_heads = 1;
        const Case c(random, shape, {random.between(2100, 2500), 90}, 8);
        CHECK(beyond_quantisation(c, c.on_device(cuda::hack_attention), 0, 5) == 0);
        const Buffer expected = c.by(ref::hack_dequantise_attention);
        const std::vector<std::byte> ours = c.on_device(cuda::hack_dequantise_attention);
        CHECK(worst_error(ours.data(), expected.data(), shape.format, c.elements) <=
              allowed_dequantised(c));
      },
      6);
}

TEST_CASE("HACK on a GPU: bad arguments") {
  Random random(108);
  HackShape shape;
  shape.head_dim = 64;
  shape.kv_heads = 1;
  const Case c(random, shape, {70}, 2);
  Buffer out(c.elements * 2);
  HackAttention good = c.arguments();
  good.out = out.data();
  const auto refused = [&](auto&& spoil) {
    HackAttention args = good;
    spoil(args);
    CHECK_THROWS_AS(cuda::hack_attention(args, 70, {}, nullptr), std::invalid_argument);
  };
  refused([](HackAttention& a) { a.shape.bits = 3; });
  refused([](HackAttention& a) { a.query_heads = 0; });
  refused([](HackAttention& a) { a.query = nullptr; });
  refused([](HackAttention& a) { a.store = static_cast<const char*>(a.store) + 16; });
  refused([](HackAttention& a) { a.kv_tokens = nullptr; });
  refused([](HackAttention& a) { a.scale = INFINITY; });
  HackAttention none = good;
  none.sequences = 0;
  cuda::hack_attention(none, 70, {}, nullptr);
  const std::int32_t zero = 0, one = 1;
  Rows rows(random, shape, 1);
  HackAppend append{c.shape, 1, &zero, &one, rows.keys.data(), rows.values.data(), c.store.data()};
  append.store = c.store.data() + 4;
  CHECK_THROWS_AS(cuda::hack_append(append, 1, nullptr), std::invalid_argument);
  append.store = c.store.data();
  append.keys = nullptr;
  CHECK_THROWS_AS(cuda::hack_append(append, 1, nullptr), std::invalid_argument);
}
