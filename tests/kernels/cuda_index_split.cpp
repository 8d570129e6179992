// The split on the GPU's code: what the reference writes, bit for bit.

#include <doctest/doctest.h>

#include "kernels/index_split/cuda.h"
#include "tests/support/cuda_test.h"
#include "tests/support/kernel_cases.h"

using namespace kvlane::kernels;
using namespace kvlane::kernels::testing;

namespace {

struct Shape {
  int sequences, kv_heads, index_width, block_tokens, blocks;
  bool with_count, with_bits;
  int skew = 0;  // elements that the index lies past an aligned address
};

void check_split(Random& random, const Shape& shape) {
  CAPTURE(shape.sequences);
  CAPTURE(shape.kv_heads);
  CAPTURE(shape.index_width);
  CAPTURE(shape.skew);
  const auto pairs = static_cast<std::size_t>(shape.sequences * shape.kv_heads);
  const std::size_t size = pairs * static_cast<std::size_t>(shape.index_width);
  const auto skew = static_cast<std::size_t>(shape.skew);
  const int tokens = shape.blocks * shape.block_tokens;
  std::vector<std::int32_t> index(skew + size), count(pairs), expected(size), expected_local(pairs);
  std::vector<std::uint8_t> mask(static_cast<std::size_t>(shape.sequences * shape.blocks));
  std::vector<std::uint64_t> bits(pairs * static_cast<std::size_t>((tokens + 63) / 64));
  const int remote_share = random.below(5);  // 0: all local, 4: all remote
  for (std::int32_t& token : index) token = tokens == 0 ? 0 : random.below(tokens);
  for (std::int32_t& n : count) n = tokens == 0 ? 0 : random.below(shape.index_width + 1);
  for (std::uint8_t& value : mask) value = random.below(4) < remote_share ? 2 : 1;
  for (std::uint64_t& word : bits) word = random.engine()() & random.engine()();
  IndexSplit args;
  args.sequences = shape.sequences;
  args.kv_heads = shape.kv_heads;
  args.index_width = shape.index_width;
  args.block_tokens = shape.block_tokens;
  args.blocks = shape.blocks;
  IndexSplit host = args;
  host.index = index.data() + skew;
  host.index_count = shape.with_count ? count.data() : nullptr;
  host.block_mask = mask.data();
  host.row_bits = shape.with_bits ? bits.data() : nullptr;
  host.split = expected.data();
  host.local_count = expected_local.data();
  ref::index_split(host);

  const DeviceArray<std::int32_t> device_index(index), device_count(count), split(size),
      local(pairs);
  const DeviceArray<std::uint8_t> device_mask(mask);
  const DeviceArray<std::uint64_t> device_bits(bits);
  args.index = device_index.data() + skew;
  args.index_count = shape.with_count ? device_count.data() : nullptr;
  args.block_mask = device_mask.data();
  args.row_bits = shape.with_bits ? device_bits.data() : nullptr;
  args.split = split.data();
  args.local_count = local.data();
  cuda::index_split(args, nullptr);
  CHECK(split.host() == expected);
  CHECK(local.host() == expected_local);
}

}  // namespace

TEST_CASE("split: odd shapes in many orders") {
  INFO("seed ", run_seed());
  Random random(81);
  for_each_order(orders(12), [&] {
    for (int round = 0; round < 4; ++round) {
      check_split(random, {random.between(0, 3), random.between(1, 3), random.between(0, 300),
                           random.between(1, 20), random.between(1, 60), round % 2 == 0, round < 2,
                           random.below(4)});
    }
    check_split(random, {1, 1, 1, 1, 1, false, true});
    check_split(random, {2, 2, 0, 16, 3, false, false});
    check_split(random, {2, 1, 5, 16, 0, true, true});
  });
}

TEST_CASE("split: rows of several tiles") {
  INFO("seed ", run_seed());
  Random random(82);
  for_each_order(orders(4), [&] { check_split(random, {1, 2, 8199, 7, 900, true, true, 3}); });
  for_each_order(
      1,
      [&] {
        check_split(random, {2, 4, 16384, 16, 2048, false, true});
      },
      3);
}

TEST_CASE("split: what the reference refuses has a defined result") {
  const DeviceArray<std::int32_t> index(std::vector<std::int32_t>{-7, 3, 100, 8, 1, 0});
  const DeviceArray<std::int32_t> count(std::vector<std::int32_t>{9});  // of 6
  const DeviceArray<std::uint8_t> mask(std::vector<std::uint8_t>{1, 77, 2});
  const DeviceArray<std::int32_t> split(6), local(1);
  const IndexSplit args{
      1, 1, 6, 4, 3, index.data(), count.data(), mask.data(), nullptr, split.data(), local.data()};
  cuda::index_split(args, nullptr);
  CHECK(split.host() == std::vector<std::int32_t>{3, 1, 0, -7, 100, 8});
  CHECK(local.host()[0] == 3);
}

TEST_CASE("split: bad arguments") {
  IndexSplit args;
  cuda::index_split(args, nullptr);  // nothing to do
  args.sequences = args.kv_heads = 1;
  CHECK_THROWS_AS(cuda::index_split(args, nullptr), std::invalid_argument);
  args.sequences = -1;
  CHECK_THROWS_AS(cuda::index_split(args, nullptr), std::invalid_argument);
}
