#include "sim/kv/budget.h"

#include <algorithm>

#include "sim/base/check.h"

namespace kvlane {
namespace {

// floor(whole * (L - 1) / L * prefill / transfer), at most whole; 128 bits inside.
std::int64_t hidden_share(std::int64_t whole, std::int64_t layers, Duration prefill,
                          Duration transfer) {
  KVLANE_CHECK(layers > 0 && whole >= 0, "{} layers, {} to send", layers, whole);
  KVLANE_CHECK(prefill.count() >= 0 && transfer.count() >= 0, "negative time");
  if (transfer.count() == 0) return whole;
  __extension__ using int128 = __int128;  // each product is below 2^126
  const int128 send = static_cast<int128>(whole) * (layers - 1) / layers;
  const int128 result = send * prefill.count() / transfer.count();
  return static_cast<std::int64_t>(std::min<int128>(result, whole));
}

}  // namespace

std::int64_t proactive_blocks(std::int64_t layers, std::int64_t blocks_per_layer, Duration prefill,
                              Duration transfer) {
  return hidden_share(layers * blocks_per_layer, layers, prefill, transfer);
}

Bytes proactive_bytes(std::int64_t layers, Bytes total, Duration prefill, Duration transfer) {
  return Bytes(hidden_share(total.count(), layers, prefill, transfer));
}

BudgetSplit split_budget(Bytes budget, Bytes mandatory) {
  return {mandatory, std::max(budget - mandatory, Bytes(0)),
          std::max(mandatory - budget, Bytes(0))};
}

}  // namespace kvlane
