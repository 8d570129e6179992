#include "sim/kv/payload.h"

#include <cmath>

#include "sim/base/check.h"

namespace kvlane {

double payload_bytes_per_element(int bits) {
  switch (bits) {
    case 16:
      return 2.0;
    case 8:
      return 1.0;
    case 4:
      return 0.5 + 4.0 / static_cast<double>(kInt4Group);
    default:
      break;
  }
  KVLANE_CHECK(false, "no payload of {} bits", bits);
  return 0;
}

double hack_bytes_per_element(std::int64_t partition) {
  KVLANE_CHECK(partition > 0, "partition {}", partition);
  const double sum = partition <= 64 ? 1 : 2;
  return 2.0 / 8.0 + (4.0 + sum) / static_cast<double>(partition);
}

std::int64_t hack_open_tokens(std::int64_t tokens, std::int64_t partition) {
  KVLANE_CHECK(tokens >= 0 && partition > 0, "{} tokens, partition {}", tokens, partition);
  if (tokens <= kHackSinkTokens) return tokens;
  return kHackSinkTokens + (tokens - kHackSinkTokens) % partition;
}

Bytes hack_bytes(std::int64_t tokens, std::int64_t elements_per_token, std::int64_t partition) {
  const std::int64_t open = hack_open_tokens(tokens, partition);
  const double packed =
      static_cast<double>((tokens - open) * elements_per_token) * hack_bytes_per_element(partition);
  return Bytes(open * elements_per_token * 2 + static_cast<std::int64_t>(std::ceil(packed)));
}

double hack_share(std::int64_t tokens, std::int64_t partition) {
  if (tokens == 0) return 1;
  const auto open = static_cast<double>(hack_open_tokens(tokens, partition));
  const auto all = static_cast<double>(tokens);
  return (open * 2 + (all - open) * hack_bytes_per_element(partition)) / (all * 2);
}

double infinigen_row_bytes(std::int64_t key_width, double partial_ratio) {
  KVLANE_CHECK(partial_ratio > 0 && partial_ratio <= 1, "partial ratio {}", partial_ratio);
  return static_cast<double>(key_width) * partial_ratio * 2.0;
}

Bytes metadata_bytes(const LayerLayout& layer, double row_bytes) {
  if (layer.dense) return Bytes(0);
  const double bytes = static_cast<double>(layer.tokens * layer.kv_heads) * row_bytes;
  return Bytes(static_cast<std::int64_t>(std::ceil(bytes)));
}

}  // namespace kvlane
