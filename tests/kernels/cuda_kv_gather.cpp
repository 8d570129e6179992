// KV rows between host and device: the kernel, and the ways that end in copies, against the
// reference byte for byte; nothing else is touched.

#include <doctest/doctest.h>

#include <numeric>

#include "kernels/kv_gather/cuda.h"
#include "tests/support/cuda_kv.h"

using namespace kvlane::kernels;
using namespace kvlane::kernels::testing;

namespace {

// Pinned host memory with an owner.
struct Pinned {
  explicit Pinned(std::size_t bytes) : data(cuda::pinned_allocate(bytes)) {}
  ~Pinned() { cuda::pinned_free(data); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  void* data;
};

// The copies of a fake engine, one at a time, last first: they do not depend on each other. Counts.
struct FakeEngine {
  std::size_t calls = 0, copies = 0;
  cuda::StagedCopies::Copy function() {
    return [this](const Copies& list, cuda::Stream stream) {
      ++calls;
      copies += list.size();
      for (std::size_t i = list.size(); i-- > 0;) {
        cuda::copy(list.to[i], list.from[i], list.bytes[i], stream);
      }
      cuda::synchronize(stream);
    };
  }
};

std::vector<std::uint8_t> bytes_of_memory(const void* memory, std::size_t bytes) {
  const auto* at = static_cast<const std::uint8_t*>(memory);
  return {at, at + bytes};
}

void check(Random& random, const std::vector<std::int32_t>& tokens, int kv_heads, int head_dim,
           int block_tokens, Format format, int blocks) {
  CAPTURE(head_dim);
  CAPTURE(to_string(format));
  PagedKv kv(random, tokens, kv_heads, head_dim, block_tokens, format);
  const DeviceKvCache device_kv(kv);
  const Selection selection = select(random, tokens, kv_heads);
  KvGather host;
  host.sequences = static_cast<int>(tokens.size());
  host.kv = kv.cache;
  host.kv_tokens = kv.tokens.data();
  host.index = selection.index.data();
  host.index_count = selection.count.data();
  host.index_width = selection.width;
  const std::size_t bytes = selection.index.size() * kv.cache.row_bytes();
  Buffer expected(bytes), scattered(kv.rows.bytes());
  host.packed = expected.data();
  ref::kv_gather(host);
  host.kv.rows = scattered.data();
  ref::kv_scatter(host);
  host.kv.rows = kv.rows.data();
  const auto gathered = bytes_of_memory(expected.data(), bytes);
  const auto back = bytes_of_memory(scattered.data(), scattered.bytes());

  // From the pinned cache and into an empty one.
  Pinned pinned(kv.rows.bytes()), empty(kv.rows.bytes());
  std::memcpy(pinned.data, kv.rows.data(), kv.rows.bytes());
  std::memset(empty.data, 0xff, kv.rows.bytes());
  const DeviceArray<std::int32_t> index(selection.index), count(selection.count);
  const DeviceArray<std::uint8_t> packed(std::vector<std::uint8_t>(bytes, 0xff));
  KvGather device = host;
  device.kv = device_kv.cache;
  device.kv.rows = pinned.data;
  device.kv_tokens = device_kv.tokens.data();
  device.index = index.data();
  device.index_count = count.data();
  device.packed = packed.data();
  cuda::kv_gather(device, nullptr, blocks);
  CHECK(packed.host() == gathered);
  device.kv.rows = empty.data;
  cuda::kv_scatter(device, nullptr, blocks);
  cuda::synchronize();
  CHECK(bytes_of_memory(empty.data, kv.rows.bytes()) == back);

  // The same by copies.
  FakeEngine engine;
  cuda::StagedCopies staged(engine.function(), ref::kv_gather);
  const DeviceArray<std::uint8_t> by_copies(std::vector<std::uint8_t>(bytes, 0xff)),
      by_one(std::vector<std::uint8_t>(bytes, 0xff));
  host.packed = by_copies.data();
  host.kv.rows = pinned.data;
  staged.gather(host, nullptr);
  CHECK(by_copies.host() == gathered);
  std::memset(empty.data, 0xff, kv.rows.bytes());
  host.kv.rows = empty.data;
  staged.scatter(host, nullptr);
  CHECK(bytes_of_memory(empty.data, kv.rows.bytes()) == back);
  Pinned staging(bytes);
  host.packed = by_one.data();
  host.kv.rows = pinned.data;
  staged.packed(host, staging.data, nullptr);
  CHECK(by_one.host() == gathered);
}

}  // namespace

TEST_CASE("kv rows: odd shapes in many orders, byte for byte") {
  INFO("seed ", run_seed());
  Random random(121);
  for_each_order(orders(10), [&] {
    check(random, {1}, 1, 64, 16, Format::bf16, 0);
    check(random, {0, random.between(1, 40), 5}, 2, 64, 5, Format::fp16, 1);
    check(random, {random.between(1, 90), 1}, 3, 16 * random.between(1, 6), 16, Format::fp32, 2);
    check(random, {random.between(1, 200)}, 2, 128, random.between(1, 33), Format::bf16, 0);
    check(random, {21}, 1, 512, 4, Format::fp32, 0);  // rows of more than 2 KiB
  });
}

TEST_CASE("kv rows: one large shape") {
  INFO("seed ", run_seed());
  Random random(122);
  for_each_order(
      1,
      [&] {
        check(random, {3000, 1111}, 2, 128, 16, Format::bf16, 0);
      },
      5);
}

TEST_CASE("kv rows: runs are one copy, full rows of the index all together one") {
  Random random(123);
  PagedKv kv(random, {32}, 2, 64, 16, Format::bf16);
  std::vector<std::int32_t> index(64);
  std::iota(index.begin(), index.begin() + 32, 0);
  std::iota(index.begin() + 32, index.end(), 0);
  Buffer packed(64 * kv.cache.row_bytes()), staging(packed.bytes());
  KvGather args{1, kv.cache, kv.tokens.data(), index.data(), nullptr, 32, packed.data()};
  FakeEngine engine;
  cuda::StagedCopies staged(engine.function(), ref::kv_gather);
  staged.packed(args, staging.data(), nullptr);
  CHECK(engine.copies == 1);
  // Two heads of two blocks; blocks that happen to lie in order go on only within a head.
  engine.copies = 0;
  staged.gather(args, nullptr);
  CHECK(engine.copies == 4);
  std::reverse(index.begin(), index.end());
  engine.copies = 0;
  staged.gather(args, nullptr);
  CHECK(engine.copies == 64);
  args.index_width = 0;
  engine.calls = 0;
  staged.packed(args, staging.data(), nullptr);
  staged.gather(args, nullptr);
  CHECK(engine.calls == 0);
}

#if !defined(KVLANE_CUDA_HOST)
TEST_CASE("kv rows: the runtime's batch of copies") {
  Random random(124);
  const cuda::Stream stream = cuda::create_stream();
  std::vector<std::uint8_t> from(100000);
  for (std::uint8_t& byte : from) byte = static_cast<std::uint8_t>(random.below(256));
  Pinned pinned(from.size());
  std::memcpy(pinned.data, from.data(), from.size());
  const DeviceArray<std::uint8_t> to(std::vector<std::uint8_t>(from.size(), 0));
  cuda::synchronize();
  Copies copies;
  for (std::size_t i = 0; i < 100; ++i) {
    const std::size_t place = (i * 37 % 100) * 1000;
    copies.add(to.data() + place, static_cast<const std::uint8_t*>(pinned.data) + place, 1000);
  }
  cuda::copy_batch(copies, stream);
  cuda::synchronize(stream);
  CHECK(to.host() == from);
  cuda::destroy_stream(stream);
}
#endif

TEST_CASE("kv rows: what only the device sees is clamped; bad arguments are named") {
  Random random(125);
  PagedKv kv(random, {5}, 1, 16, 4, Format::bf16);
  const DeviceKvCache device_kv(kv);
  const DeviceArray<std::int32_t> index(std::vector<std::int32_t>{99, -1});
  const DeviceArray<std::int32_t> count(std::vector<std::int32_t>{77});
  const DeviceArray<std::uint8_t> packed(2 * kv.cache.row_bytes());
  KvGather args{1, device_kv.cache, device_kv.tokens.data(), index.data(), count.data(),
                2, packed.data()};
  cuda::kv_gather(args, nullptr);
  const std::vector<std::uint8_t> ours = packed.host();
  const std::size_t row = kv.cache.row_bytes();
  CHECK(std::memcmp(ours.data(), kv.rows.as<std::byte>() + kv.cache.row(0, 0, 4) * row, row) == 0);
  CHECK(std::memcmp(ours.data() + row, kv.rows.as<std::byte>() + kv.cache.row(0, 0, 0) * row,
                    row) == 0);
  args.packed = packed.data() + 8;
  CHECK_THROWS_WITH_AS(cuda::kv_gather(args, nullptr),
                       "packed rows at an address that is not a multiple of 16",
                       std::invalid_argument);
  args.sequences = 0;
  cuda::kv_gather(args, nullptr);
  args.kv.head_dim = 8;
  CHECK_THROWS_AS(cuda::kv_scatter(args, nullptr), std::invalid_argument);
}
