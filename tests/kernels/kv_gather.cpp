// Gather and scatter of KV rows: byte for byte what the reference copies, and nothing else touched.

#include <doctest/doctest.h>

#include <numeric>

#include "kernels/kv_gather/kernel.h"
#include "tests/support/instruction_sets.h"
#include "tests/support/kernel_cases.h"

using namespace kvlane::kernels;
using namespace kvlane::kernels::testing;

namespace {

void check(Random& random, const std::vector<std::int32_t>& tokens, int kv_heads, int head_dim,
           int block_tokens, Format format, std::size_t offset) {
  PagedKv kv(random, tokens, kv_heads, head_dim, block_tokens, format);
  const Selection selection = select(random, tokens, kv_heads);
  KvGather args;
  args.sequences = static_cast<int>(tokens.size());
  args.kv = kv.cache;
  args.kv_tokens = kv.tokens.data();
  args.index = selection.index.data();
  args.index_count = selection.count.data();
  args.index_width = selection.width;
  const std::size_t bytes = selection.index.size() * kv.cache.row_bytes();
  Buffer expected(bytes);
  args.packed = expected.data();
  ref::kv_gather(args);
  for_each_instruction_set([&](const std::string& name) {
    CAPTURE(name);
    Cpu cpu(2);
    Buffer packed(bytes, offset);
    args.packed = packed.data();
    cpu::kv_gather(args, cpu);
    CHECK(std::memcmp(packed.data(), expected.data(), bytes) == 0);
    // Back into an empty cache: what was selected returns, all else stays as it was.
    Buffer scattered(kv.rows.bytes()), scattered_expected(kv.rows.bytes());
    args.kv.rows = scattered.data();
    cpu::kv_scatter(args, cpu);
    args.kv.rows = scattered_expected.data();
    ref::kv_scatter(args);
    CHECK(std::memcmp(scattered.data(), scattered_expected.data(), kv.rows.bytes()) == 0);
    args.kv.rows = kv.rows.data();
  });
}

}  // namespace

TEST_CASE("rows come and go byte for byte") {
  INFO("KVLANE_SEED=" << run_seed());
  Random random(1);
  check(random, {1}, 1, 64, 16, Format::bf16, 0);
  check(random, {0, 37, 5}, 2, 64, 5, Format::fp16, 2);
  check(random, {300, 1}, 3, 80, 16, Format::fp32, 4);
  check(random, {random.between(1, 900)}, 2, 128, random.between(1, 33), Format::bf16, 6);
  check(random, {20000, 9000}, 2, 128, 16, Format::bf16, 0);  // past the caches
}

TEST_CASE("scatter after gather is what was there") {
  Random random(2);
  PagedKv kv(random, {50}, 2, 64, 16, Format::bf16);
  Buffer before(kv.rows.bytes());
  std::memcpy(before.data(), kv.rows.data(), kv.rows.bytes());
  std::vector<std::int32_t> index(100);
  std::iota(index.begin(), index.begin() + 50, 0);
  std::iota(index.begin() + 50, index.end(), 0);
  Buffer packed(100 * kv.cache.row_bytes());
  KvGather args{1, kv.cache, kv.tokens.data(), index.data(), nullptr, 50, packed.data()};
  Cpu cpu(1);
  cpu::kv_gather(args, cpu);
  for (int h = 0; h < 2; ++h) {  // the packed rows of a head are its tokens in order
    for (int t = 0; t < 50; ++t) {
      CHECK(std::memcmp(packed.as<std::byte>() + static_cast<std::size_t>(h * 50 + t) * 256,
                        before.as<std::byte>() + kv.cache.row(0, h, t) * 256, 256) == 0);
    }
  }
  cpu::kv_scatter(args, cpu);
  CHECK(std::memcmp(kv.rows.data(), before.data(), before.bytes()) == 0);
}

TEST_CASE("a row that is not there is an error before anything is copied") {
  Random random(3);
  PagedKv kv(random, {5}, 1, 64, 16, Format::bf16);
  const std::int32_t index[] = {4, 5};
  Buffer packed(2 * kv.cache.row_bytes());
  KvGather args{1, kv.cache, kv.tokens.data(), index, nullptr, 2, packed.data()};
  Cpu cpu(1);
  CHECK_THROWS_AS(cpu::kv_gather(args, cpu), std::invalid_argument);
  CHECK(packed.as<std::uint8_t>()[0] == 0xff);
}
