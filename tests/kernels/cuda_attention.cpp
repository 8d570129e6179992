// Decode and sparse attention of the GPU's code against the reference in double.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/decode_attention/cuda.h"
#include "kernels/sparse_attention/cuda.h"
#include "tests/support/cuda_kv.h"

using namespace kvlane::kernels;
using namespace kvlane::kernels::testing;

namespace {

struct Shape {
  std::vector<std::int32_t> kv_tokens;
  int kv_heads = 1, group = 1, head_dim = 64, block_tokens = 16;
  Format format = Format::bf16;
  int window = 0;
  float soft_cap = 0;
};

// exp2 and rounding of the running softmax on top of sums in fp32.
double allowed(Format format, std::size_t terms) { return 2 * allowed_error(format, terms) + 1e-6; }

struct World {
  World(Random& random, const Shape& shape)
      : heads(shape.kv_heads * shape.group),
        elements(shape.kv_tokens.size() * static_cast<std::size_t>(heads * shape.head_dim)),
        kv(random, shape.kv_tokens, shape.kv_heads, shape.head_dim, shape.block_tokens,
           shape.format),
        query(normal_tensor(random, elements, shape.format)),
        expected(elements * bytes_of(shape.format)),
        device_query(to_device(query)),
        device_out(elements * bytes_of(shape.format)),
        device_kv(kv) {}

  template <typename Args>
  void fill(Args& args, const Shape& shape) const {
    args.sequences = static_cast<int>(shape.kv_tokens.size());
    args.query_heads = heads;
    args.scale = 1 / std::sqrt(static_cast<float>(shape.head_dim));
    args.soft_cap = shape.soft_cap;
  }
  template <typename Args>
  Args on_host(const Shape& shape) {
    Args args;
    fill(args, shape);
    args.query = query.data();
    args.kv = kv.cache;
    args.kv_tokens = kv.tokens.data();
    args.out = expected.data();
    return args;
  }
  template <typename Args>
  Args on_device(const Shape& shape) const {
    Args args;
    fill(args, shape);
    args.query = device_query.data();
    args.kv = device_kv.cache;
    args.kv_tokens = device_kv.tokens.data();
    args.out = device_out.data();
    return args;
  }

  int heads;
  std::size_t elements;
  PagedKv kv;
  Buffer query, expected;
  DeviceArray<std::byte> device_query, device_out;
  DeviceKvCache device_kv;
};

void check_decode(Random& random, const Shape& shape) {
  World world(random, shape);
  auto host = world.on_host<DecodeAttention>(shape);
  host.window = shape.window;
  ref::decode_attention(host);
  auto device = world.on_device<DecodeAttention>(shape);
  device.window = shape.window;
  const int longest = *std::max_element(shape.kv_tokens.begin(), shape.kv_tokens.end());
  const cuda::DeviceBuffer workspace(cuda::decode_attention_workspace(device, longest));
  cuda::decode_attention(device, longest, workspace.workspace(), nullptr);
  const std::vector<std::byte> ours = world.device_out.host();
  CAPTURE(shape.head_dim);
  CAPTURE(shape.group);
  CAPTURE(longest);
  CAPTURE(to_string(shape.format));
  CHECK(worst_error(ours.data(), world.expected.data(), shape.format, world.elements) <=
        allowed(shape.format, static_cast<std::size_t>(std::max(longest, shape.head_dim))));
}

void check_sparse(Random& random, const Shape& shape, int index_width, bool with_count) {
  World world(random, shape);
  const std::size_t rows = shape.kv_tokens.size() * static_cast<std::size_t>(shape.kv_heads);
  const auto width = static_cast<std::size_t>(index_width);
  std::vector<std::int32_t> index(rows * width, 0), count(rows, index_width);
  for (std::size_t row = 0; row < rows; ++row) {
    const std::int32_t n = shape.kv_tokens[row / static_cast<std::size_t>(shape.kv_heads)];
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(n));
    std::iota(tokens.begin(), tokens.end(), 0);
    std::shuffle(tokens.begin(), tokens.end(), random.engine());
    if (with_count) count[row] = random.between(0, std::min(n, index_width));
    std::copy_n(tokens.begin(), count[row],
                index.begin() + static_cast<std::ptrdiff_t>(row * width));
  }
  auto host = world.on_host<SparseAttention>(shape);
  host.index = index.data();
  host.index_count = with_count ? count.data() : nullptr;
  host.index_width = index_width;
  ref::sparse_attention(host);
  const DeviceArray<std::int32_t> device_index(index), device_count(count);
  auto device = world.on_device<SparseAttention>(shape);
  device.index = device_index.data();
  device.index_count = with_count ? device_count.data() : nullptr;
  device.index_width = index_width;
  const cuda::DeviceBuffer workspace(cuda::sparse_attention_workspace(device));
  cuda::sparse_attention(device, workspace.workspace(), nullptr);
  const std::vector<std::byte> ours = world.device_out.host();
  CAPTURE(shape.head_dim);
  CAPTURE(shape.group);
  CAPTURE(index_width);
  CHECK(worst_error(ours.data(), world.expected.data(), shape.format, world.elements) <=
        allowed(shape.format, static_cast<std::size_t>(std::max(index_width, shape.head_dim))));
}

}  // namespace

TEST_CASE("decode attention: every format and head dimension, odd lengths, in many orders") {
  INFO("seed ", run_seed());
  Random random(81);
  int turn = 0;
  for_each_order(orders(12), [&] {
    const int dims[] = {64, 128, 256};
    const Format formats[] = {Format::bf16, Format::fp16, Format::fp32};
    for (int i = 0; i < 3; ++i) {
      Shape shape;
      shape.kv_tokens = {random.between(1, 90), random.below(3), 1};
      shape.kv_heads = random.between(1, 2);
      shape.group = random.between(1, 9);
      shape.head_dim = dims[(turn + i) % 3];
      shape.format = formats[(turn / 3 + i) % 3];
      shape.block_tokens = random.between(1, 33);
      shape.window = random.below(2) * random.between(1, 40);
      shape.soft_cap = random.below(2) == 0 ? 0.0f : 3.0f;
      check_decode(random, shape);
    }
    turn = (turn + 1) % 9;
  });
}

TEST_CASE("decode attention: long sequences are split, short ones beside them") {
  INFO("seed ", run_seed());
  Random random(82);
  for_each_order(orders(6), [&] {
    Shape shape;
    shape.kv_tokens = {random.between(600, 900), random.below(300), 0};
    shape.group = random.between(1, 8);
    shape.format = random.below(2) == 0 ? Format::bf16 : Format::fp32;
    shape.block_tokens = 24;
    check_decode(random, shape);
    shape.window = 530;
    check_decode(random, shape);
  });
}

TEST_CASE("sparse attention: indices in any order, counts, empty selections, splits") {
  INFO("seed ", run_seed());
  Random random(83);
  for_each_order(orders(10), [&] {
    Shape shape;
    shape.kv_heads = 2;
    shape.kv_tokens = {random.between(60, 100), 70, 0};
    shape.group = random.between(1, 5);
    shape.format = random.below(2) == 0 ? Format::bf16 : Format::fp16;
    shape.head_dim = random.below(2) == 0 ? 64 : 128;
    shape.block_tokens = 7;
    check_sparse(random, shape, random.between(1, 80), true);
    shape.kv_tokens = {65, 90};
    check_sparse(random, shape, 60, false);
    check_sparse(random, shape, 0, false);
    shape.kv_tokens = {700};
    check_sparse(random, shape, 690, true);
  });
}

TEST_CASE("attention: NaN, infinity and nothing but minus infinity") {
  INFO("seed ", run_seed());
  Random random(84);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for_each_order(orders(4), [&] {
    for (float special : {std::nanf(""), kInfinity, -kInfinity}) {
      for (bool all : {false, true}) {
        Shape shape;
        shape.kv_tokens = {random.between(2, 40), 700};
        shape.format = Format::fp32;
        World world(random, shape);
        // Queries of 1, the first element of a key special: logits are, too.
        for (std::size_t i = 0; i < world.elements; ++i)
          store(world.query.data(), shape.format, i, 1);
        for (int s = 0; s < 2; ++s) {
          for (int t = 0; t < shape.kv_tokens[static_cast<std::size_t>(s)]; ++t) {
            if (all || t == 1) {
              store(world.kv.rows.data(), shape.format,
                    world.kv.cache.row(s, 0, t) * world.kv.cache.row_elements(), special);
            }
          }
        }
        const DeviceKvCache kv(world.kv);
        const DeviceArray<std::byte> query = to_device(world.query);
        ref::decode_attention(world.on_host<DecodeAttention>(shape));
        auto device = world.on_device<DecodeAttention>(shape);
        device.kv = kv.cache;
        device.query = query.data();
        const cuda::DeviceBuffer workspace(cuda::decode_attention_workspace(device, 700));
        cuda::decode_attention(device, 700, workspace.workspace(), nullptr);
        const std::vector<std::byte> ours = world.device_out.host();
        CAPTURE(special);
        CAPTURE(all);
        CHECK(worst_error(ours.data(), world.expected.data(), shape.format, world.elements) <=
              allowed(shape.format, 700));
      }
    }
  });
}

TEST_CASE("decode attention: one large shape") {
  INFO("seed ", run_seed());
  Random random(85);
  for_each_order(
      1,
      [&] {
        Shape shape;
        shape.kv_tokens = {2048};
        shape.group = 4;
        shape.head_dim = 128;
        check_decode(random, shape);
      },
      4);
}

TEST_CASE("attention: bad arguments") {
  Random random(86);
  Shape shape;
  shape.kv_tokens = {20};
  World world(random, shape);
  const auto good = world.on_device<DecodeAttention>(shape);
  const auto refused = [&](auto&& spoil) {
    DecodeAttention args = good;
    spoil(args);
    CHECK_THROWS_AS(cuda::decode_attention(args, 20, {}, nullptr), std::invalid_argument);
  };
  refused([](DecodeAttention& a) { a.kv.head_dim = 80; });
  refused([](DecodeAttention& a) { a.kv.rows = static_cast<const char*>(a.kv.rows) + 4; });
  refused([](DecodeAttention& a) { a.query_heads = 0; });
  refused([](DecodeAttention& a) { a.query = nullptr; });
  refused([](DecodeAttention& a) { a.window = -1; });
  refused([](DecodeAttention& a) { a.soft_cap = std::nanf(""); });
  CHECK_THROWS_AS(cuda::decode_attention(good, 600, {}, nullptr), std::invalid_argument);
  DecodeAttention none = good;
  none.sequences = 0;
  cuda::decode_attention(none, 20, {}, nullptr);
}
