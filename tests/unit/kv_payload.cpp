// Budget and payload formulas of the transfer strategies.

#include <doctest/doctest.h>

#include "sim/kv/budget.h"
#include "sim/kv/payload.h"

using namespace kvlane;
using namespace kvlane::literals;

TEST_CASE("proactive_blocks: K_r = L M (T_p / T_t) (L - 1) / L") {
  // 32 layers x 1024 blocks, prefill 0.36 s, transfer 2.06 s:
  // 32768 x 31/32 x 0.36/2.06 = 31744 x 0.174757... = 5547.49
  CHECK(proactive_blocks(32, 1024, 360_ms, 2060_ms) == 5547);
  CHECK(proactive_blocks(32, 1024, 0_ms, 2060_ms) == 0);
  // Prefill hides the transfer: all but the last layer's share, then all.
  CHECK(proactive_blocks(32, 1024, 1_s, 1_s) == 31744);
  CHECK(proactive_blocks(32, 1024, 2_s, 1_s) == 32768);
  CHECK(proactive_blocks(32, 1024, 1_s, 0_s) == 32768);
  CHECK(proactive_blocks(1, 1024, 1_s, 1_s) == 0);  // one layer: nothing can overlap
  // Days times petabytes stay within 128 bits.
  CHECK(proactive_bytes(2, Bytes(std::int64_t{1} << 62), Duration::max(), Duration::max()) ==
        Bytes(std::int64_t{1} << 61));
}

TEST_CASE("split_budget: mandatory bytes count inside and are sent in any case") {
  const BudgetSplit fits = split_budget(100_B, 30_B);
  CHECK(fits.free == 70_B);
  CHECK(fits.excess == 0_B);
  const BudgetSplit exceeds = split_budget(20_B, 30_B);
  CHECK(exceeds.mandatory == 30_B);
  CHECK(exceeds.free == 0_B);
  CHECK(exceeds.excess == 10_B);
}

TEST_CASE("hack_bytes: shares of 16-bit KV that its authors measured") {
  // 4096 tokens: 20.9 / 17.7 / 17.5 % for partitions of 32, 64, 128; 8192: 20.6 / 17.1 / 16.2 %.
  struct Row {
    std::int64_t tokens, partition;
    double percent;
  };
  for (const Row& row : {Row{4096, 32, 20.9}, Row{4096, 64, 17.7}, Row{4096, 128, 17.5},
                         Row{8192, 32, 20.6}, Row{8192, 64, 17.1}, Row{8192, 128, 16.2}}) {
    CAPTURE(row.tokens);
    CAPTURE(row.partition);
    CHECK(std::abs(hack_share(row.tokens, row.partition) * 100 - row.percent) < 0.05);
    // Qwen3-8B: 36 layers x 8 heads x 256 values a token.
    const std::int64_t elements = 36 * 8 * 256;
    const double share =
        static_cast<double>(hack_bytes(row.tokens, elements, row.partition).count()) /
        static_cast<double>(row.tokens * elements * 2);
    CHECK(share == doctest::Approx(hack_share(row.tokens, row.partition)).epsilon(1e-9));
  }
  // By hand, 4096 tokens, partition 64: (4096 - 4) mod 64 = 60 open + 4 sinks in 16 bit, 4032
  // packed at 0.25 + 5/64 = 0.328125 B. For 256 values: 64 x 512 + 4032 x 84 = 371456.
  CHECK(hack_open_tokens(4096, 64) == 64);
  CHECK(hack_bytes(4096, 256, 64) == Bytes(371'456));
}

TEST_CASE("hack_bytes: a prompt shorter than a partition stays in 16 bit") {
  CHECK(hack_bytes(3, 256, 64) == Bytes(3 * 512));
  CHECK(hack_bytes(67, 256, 64) == Bytes(67 * 512));           // 4 sinks + 63 open
  CHECK(hack_bytes(68, 256, 64) == Bytes(4 * 512 + 64 * 84));  // one full partition
  CHECK(hack_bytes(0, 256, 64) == 0_B);
}

TEST_CASE("payload_bytes_per_element: 16, 8 and 4 bits") {
  CHECK(payload_bytes_per_element(16) == 2);
  CHECK(payload_bytes_per_element(8) == 1);
  CHECK(payload_bytes_per_element(4) == 0.5625);  // 4 B of scale and minimum for 64 values
  CHECK_THROWS_AS(payload_bytes_per_element(3), std::logic_error);
}

TEST_CASE("selection metadata: InfiniGen r/2 of the KV, HATA 3.5 % at width 128") {
  const double row = 2 * 128 * 2;  // K and V of one head in bf16
  CHECK(infinigen_row_bytes(128, 0.3) / row == doctest::Approx(0.15));
  CHECK(infinigen_row_bytes(128, 0.25) / row == doctest::Approx(0.125));
  CHECK(infinigen_row_bytes(128, 0.2) / row == doctest::Approx(0.10));
  CHECK(kHataRowBytes / row == doctest::Approx(0.0352).epsilon(0.01));
  LayerLayout layer;
  layer.tokens = 1000;
  layer.kv_heads = 8;
  CHECK(metadata_bytes(layer, kHataRowBytes) == Bytes(144'000));
  layer.dense = true;
  CHECK(metadata_bytes(layer, kHataRowBytes) == 0_B);
}
