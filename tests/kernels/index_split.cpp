// The split of a selection into local and remote rows: the reference is a stable partition.

#include <doctest/doctest.h>

#include "kernels/index_split/kernel.h"
#include "tests/support/kernel_cases.h"

using namespace kvlane::kernels;
using namespace kvlane::kernels::testing;

TEST_CASE("local rows first, remote ones without a gap, both in order") {
  INFO("KVLANE_SEED=" << run_seed());
  Random random(1);
  for (int round = 0; round < 60; ++round) {
    IndexSplit args;
    args.sequences = random.between(0, 3);
    args.kv_heads = random.between(1, 4);
    args.index_width = random.between(0, 300);
    args.block_tokens = random.between(1, 20);
    args.blocks = random.between(1, 60);
    const auto pairs = static_cast<std::size_t>(args.sequences * args.kv_heads);
    const std::size_t size = pairs * static_cast<std::size_t>(args.index_width);
    const int tokens = args.blocks * args.block_tokens;
    std::vector<std::int32_t> index(size), count(pairs), expected(size), expected_local(pairs);
    std::vector<std::uint8_t> mask(static_cast<std::size_t>(args.sequences * args.blocks));
    std::vector<std::uint64_t> bits(pairs * static_cast<std::size_t>((tokens + 63) / 64));
    const int remote_share = random.below(5);  // 0: all local, 4: all remote
    for (std::int32_t& token : index) token = random.below(tokens);
    for (std::int32_t& n : count) n = random.below(args.index_width + 1);
    for (std::uint8_t& value : mask) value = random.below(4) < remote_share ? 2 : 1;
    for (std::uint64_t& word : bits) word = random.engine()() & random.engine()();
    args.index = index.data();
    args.index_count = round % 3 == 0 ? nullptr : count.data();
    args.block_mask = mask.data();
    args.row_bits = round % 2 == 0 ? nullptr : bits.data();
    args.split = expected.data();
    args.local_count = expected_local.data();
    ref::index_split(args);
    Buffer split(size * 4), local(pairs * 4);
    args.split = split.as<std::int32_t>();
    args.local_count = local.as<std::int32_t>();
    Cpu cpu(random.between(1, 3));
    cpu::index_split(args, cpu);
    CHECK(std::equal(expected.begin(), expected.end(), args.split));
    CHECK(std::equal(expected_local.begin(), expected_local.end(), args.local_count));
  }
}

TEST_CASE("an example by hand, and what is refused") {
  std::vector<std::int32_t> index = {0, 4, 8, 9, 1};
  std::vector<std::uint8_t> mask = {1, 2, 2};  // blocks of 4: tokens 4 to 11 are remote
  std::uint64_t fetched = std::uint64_t{1} << 9;
  std::vector<std::int32_t> split(5);
  std::int32_t local = 0;
  IndexSplit args{1,     1, 5, 4, 3, index.data(), nullptr, mask.data(), &fetched, split.data(),
                  &local};
  Cpu cpu(1);
  cpu::index_split(args, cpu);
  CHECK(split == std::vector<std::int32_t>{0, 9, 1, 4, 8});
  CHECK(local == 3);
  mask[1] = 0;
  CHECK_THROWS_WITH_AS(cpu::index_split(args, cpu),
                       "a mask value that is neither 1 (local) nor 2 (remote)",
                       std::invalid_argument);
  mask[1] = 2;
  index[2] = 12;
  CHECK_THROWS_WITH_AS(cpu::index_split(args, cpu), "a selected row outside the mask",
                       std::invalid_argument);
}
