// Prefill attention of the GPU's code against the reference in double.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "kernels/prefill_attention/cuda.h"
#include "tests/support/cuda_kv.h"

using namespace kvlane::kernels;
using namespace kvlane::kernels::testing;

namespace {

struct Shape {
  std::vector<std::int32_t> new_tokens, kv_tokens;
  int kv_heads = 1, group = 1, head_dim = 64, block_tokens = 16;
  Format format = Format::bf16;
  int window = 0;
  float soft_cap = 0;
};

constexpr Format kFormats[] = {Format::bf16, Format::fp16, Format::fp32};
constexpr int kDims[] = {64, 128, 256};

// Two roundings of the output and one of each weight to the format, exp2 and the running softmax.
double allowed(Format format, std::size_t terms) { return 2 * allowed_error(format, terms) + 1e-6; }

class World {
 public:
  World(Random& random, const Shape& of)
      : shape(of),
        heads(of.kv_heads * of.group),
        tokens(static_cast<std::size_t>(
            std::accumulate(of.new_tokens.begin(), of.new_tokens.end(), 0))),
        elements(tokens * static_cast<std::size_t>(heads * of.head_dim)),
        kv(random, of.kv_tokens, of.kv_heads, of.head_dim, of.block_tokens, of.format),
        query(normal_tensor(random, elements, of.format)),
        expected(elements * bytes_of(of.format)) {}

  std::size_t row_elements() const { return static_cast<std::size_t>(heads * shape.head_dim); }
  PrefillAttention arguments() {
    PrefillAttention args;
    args.sequences = static_cast<int>(shape.kv_tokens.size());
    args.query_heads = heads;
    args.new_tokens = shape.new_tokens.data();
    args.kv_tokens = kv.tokens.data();
    args.query = query.data();
    args.kv = kv.cache;
    args.scale = 1 / std::sqrt(static_cast<float>(shape.head_dim));
    args.window = shape.window;
    args.soft_cap = shape.soft_cap;
    args.out = expected.data();
    return args;
  }
  // Into a poisoned output of exactly its size.
  std::vector<std::byte> on_device() {
    const DeviceKvCache device_kv(kv);
    const DeviceArray<std::int32_t> new_tokens(shape.new_tokens);
    const DeviceArray<std::byte> device_query = to_device(query),
                                 out(elements * bytes_of(shape.format));
    PrefillAttention args = arguments();
    args.new_tokens = new_tokens.data();
    args.kv_tokens = device_kv.tokens.data();
    args.kv = device_kv.cache;
    args.query = device_query.data();
    args.out = out.data();
    const int most_new = *std::max_element(shape.new_tokens.begin(), shape.new_tokens.end());
    const int most = *std::max_element(shape.kv_tokens.begin(), shape.kv_tokens.end());
    const cuda::DeviceBuffer workspace(cuda::prefill_attention_workspace(args, most_new, most));
    cuda::prefill_attention(args, most_new, most, workspace.workspace(), nullptr);
    return out.host();
  }
  double error() {
    ref::prefill_attention(arguments());
    const std::vector<std::byte> ours = on_device();
    return worst_error(ours.data(), expected.data(), shape.format, elements);
  }
  double limit() const {
    const int most = *std::max_element(shape.kv_tokens.begin(), shape.kv_tokens.end());
    return allowed(shape.format, static_cast<std::size_t>(std::max(most, shape.head_dim)));
  }

  Shape shape;
  int heads;
  std::size_t tokens, elements;
  PagedKv kv;
  Buffer query, expected;
};

void check(Random& random, const Shape& shape) {
  World world(random, shape);
  CAPTURE(shape.head_dim);
  CAPTURE(shape.group);
  CAPTURE(shape.new_tokens[0]);
  CAPTURE(shape.kv_tokens[0]);
  CAPTURE(shape.window);
  CAPTURE(shape.soft_cap);
  CAPTURE(std::string(to_string(shape.format)));
  CHECK(world.error() <= world.limit());
}

}  // namespace

TEST_CASE("prefill attention: every format and head dimension, odd lengths, in many orders") {
  INFO("seed ", run_seed());
  Random random(91);
  int turn = random.below(9);
  for_each_order(orders(18), [&] {
    // One after another all nine; three orders of a sanitizer see each format and dimension once.
    const int i = turn++;
    Shape shape;
    shape.format = kFormats[i % 3];
    shape.head_dim = kDims[(i + i / 3) % 3];
    shape.new_tokens = {random.between(1, 40), 0, 1};
    shape.kv_tokens = {shape.new_tokens[0] + random.between(0, 60), 3, random.between(1, 40)};
    shape.kv_heads = random.between(1, 2);
    shape.group = random.between(1, 5);
    shape.block_tokens = random.between(1, 33);
    shape.window = random.below(2) * random.between(1, 40);
    shape.soft_cap = random.below(2) == 0 ? 0.0f : 3.0f;
    check(random, shape);
  });
}

TEST_CASE("prefill attention: few new tokens on a long prefix, keys split over blocks") {
  INFO("seed ", run_seed());
  Random random(92);
  int turn = random.below(9);
  for_each_order(orders(6), [&] {
    const int i = turn++;
    Shape shape;
    shape.new_tokens = {random.between(1, 9), 2};
    shape.kv_tokens = {random.between(600, 700), random.between(2, 90)};
    shape.group = random.between(1, 3);
    shape.format = kFormats[(i + 2) % 3];
    shape.block_tokens = 24;
    shape.window = random.below(2) * 530;
    check(random, shape);
  });
}

TEST_CASE("a single token and a whole prompt without a prefix") {
  INFO("seed ", run_seed());
  Random random(93);
  for_each_order(orders(3), [&] {
    for (Format format : kFormats) {
      Shape shape;
      shape.format = format;
      shape.new_tokens = shape.kv_tokens = {1};
      check(random, shape);
      shape.new_tokens = shape.kv_tokens = {random.between(65, 75)};
      check(random, shape);
    }
  });
}

TEST_CASE("prefill attention: NaN and infinity reach the queries that see them, and no other") {
  INFO("seed ", run_seed());
  Random random(94);
  int turn = random.below(9);
  for_each_order(orders(6), [&] {
    const int i = turn++;
    for (float special : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
      for (bool value : {false, true}) {
        Shape shape;
        shape.format = kFormats[i % 3];
        shape.head_dim = value ? 64 : kDims[i % 3];
        shape.new_tokens = {50};
        shape.kv_tokens = {70};
        shape.window = 25;
        World world(random, shape);
        // Queries of 1, so that an infinite key is an infinite logit.
        for (std::size_t e = 0; e < world.elements; ++e) {
          store(world.query.data(), shape.format, e, 1);
        }
        const auto dim = static_cast<std::size_t>(shape.head_dim);
        const int place = random.between(21, 60);
        const std::size_t channel = static_cast<std::size_t>(random.below(shape.head_dim));
        store(world.kv.rows.data(), shape.format,
              world.kv.cache.row(0, 0, place) * world.kv.cache.row_elements() + (value ? dim : 0) +
                  channel,
              special);
        CAPTURE(special);
        CAPTURE(value);
        CAPTURE(place);
        CAPTURE(std::string(to_string(shape.format)));
        CHECK(world.error() <= world.limit());
        const std::vector<std::byte> ours = world.on_device();
        for (int q = 0; q < 50; ++q) {  // at 20 + q, sees 25 keys
          const bool sees = place <= 20 + q && place > 20 + q - 25;
          bool finite = true;
          for (std::size_t c = 0; c < dim; ++c) {
            const float out =
                load(ours.data(), shape.format, static_cast<std::size_t>(q) * dim + c);
            finite &= std::isfinite(out);
            if (value && c != channel) CHECK(std::isfinite(out));
          }
          CHECK(finite != sees);
        }
      }
    }
  });
}

TEST_CASE("prefill attention: keys of minus infinity only") {
  Random random(95);
  for_each_order(orders(2), [&] {
    for (Format format : kFormats) {
      Shape shape;
      shape.format = format;
      shape.new_tokens = {5};
      shape.kv_tokens = {9};
      World world(random, shape);
      for (std::size_t e = 0; e < world.elements; ++e) store(world.query.data(), format, e, 1);
      for (int t = 0; t < 9; ++t) {
        store(world.kv.rows.data(), format,
              world.kv.cache.row(0, 0, t) * world.kv.cache.row_elements(),
              -std::numeric_limits<float>::infinity());
      }
      CHECK(world.error() <= world.limit());  // the reference's NaN
    }
  });
}

TEST_CASE("prefill attention: one large shape") {
  INFO("seed ", run_seed());
  Random random(96);
  for_each_order(
      1,
      [&] {
        Shape shape;
        shape.new_tokens = {150, 40};
        shape.kv_tokens = {300, 40};
        shape.kv_heads = 2;
        shape.group = 2;
        shape.head_dim = 128;
        check(random, shape);
      },
      5);
}

TEST_CASE("prefill attention: bad arguments") {
  Random random(97);
  Shape shape;
  shape.new_tokens = {5};
  shape.kv_tokens = {20};
  World world(random, shape);
  const PrefillAttention good = world.arguments();
  const auto refused = [&](auto&& spoil) {
    PrefillAttention args = good;
    spoil(args);
    CHECK_THROWS_AS(cuda::prefill_attention(args, 5, 20, {}, nullptr), std::invalid_argument);
  };
  refused([](PrefillAttention& a) { a.kv.head_dim = 80; });
  refused([](PrefillAttention& a) { a.kv.rows = static_cast<const char*>(a.kv.rows) + 4; });
  refused([](PrefillAttention& a) { a.query = static_cast<const char*>(a.query) + 2; });
  refused([](PrefillAttention& a) { a.query_heads = 0; });
  refused([](PrefillAttention& a) { a.query = nullptr; });
  refused([](PrefillAttention& a) { a.new_tokens = nullptr; });
  refused([](PrefillAttention& a) { a.window = -1; });
  refused([](PrefillAttention& a) { a.soft_cap = std::nanf(""); });
  CHECK_THROWS_AS(cuda::prefill_attention(good, 5, 600, {}, nullptr), std::invalid_argument);
  CHECK_THROWS_AS(cuda::prefill_attention(good, -1, 20, {}, nullptr), std::invalid_argument);
  PrefillAttention none = good;
  none.sequences = 0;
  cuda::prefill_attention(none, 5, 20, {}, nullptr);
}
