#include "kernels/hack/kernel.h"

#include <algorithm>
#include <cmath>

#include "kernels/common/argument.h"
#include "kernels/hack/layout.h"

namespace kvlane::kernels {

const char* problem(const HackShape& shape) {
  if (shape.bits != 2 && shape.bits != 4 && shape.bits != 8) return "hack: bits are 2, 4 or 8";
  if (shape.partition != 32 && shape.partition != 64 && shape.partition != 128) {
    return "hack: a partition is 32, 64 or 128";
  }
  if (shape.head_dim != 64 && shape.head_dim != 128 && shape.head_dim != 256) {
    return "hack: head_dim is 64, 128 or 256";
  }
  if (shape.head_dim % shape.partition != 0) return "hack: the partition divides head_dim";
  if (shape.sinks < 0 || shape.sinks > 1024) return "hack: sinks are 0 to 1024";
  if (shape.kv_heads < 1) return "hack: at least one kv head";
  if (shape.format == Format::fp32) return "hack: the 16-bit format is bf16 or fp16";
  if (shape.capacity < 0) return "hack: a negative capacity";
  return nullptr;
}

int hack_quantised_tokens(const HackShape& shape, int tokens) {
  require(problem(shape));
  return std::max(0, tokens - shape.sinks) / shape.partition * shape.partition;
}

std::size_t hack_sequence_bytes(const HackShape& shape) {
  const auto parts =
      static_cast<std::size_t>(hack_quantised_tokens(shape, shape.capacity) / shape.partition);
  return HackLayout(shape).quantised(parts, 0);
}

std::size_t hack_sent_bytes(const HackShape& shape, int tokens) {
  const int quantised = hack_quantised_tokens(shape, tokens);
  const HackLayout layout(shape);
  const auto exact = static_cast<std::size_t>(std::max(0, tokens - quantised));
  return layout.kv_heads *
         (static_cast<std::size_t>(quantised / shape.partition) * layout.quantised_head +
          exact * 2 * layout.head_dim * bytes_of(shape.format));
}

const char* problem(const HackAppend& args) {
  if (const char* what = problem(args.shape)) return what;
  if (args.sequences < 0) return "hack_append: a negative number of sequences";
  if (args.sequences == 0) return nullptr;
  if (args.first == nullptr || args.tokens == nullptr) return "hack_append: null counts";
  bool any = false;
  for (int i = 0; i < args.sequences; ++i) {
    if (args.first[i] < 0 || args.tokens[i] < 0) return "hack_append: a negative count";
    if (args.first[i] > args.shape.capacity - args.tokens[i]) {
      return "hack_append: more tokens than the capacity";
    }
    any |= args.tokens[i] > 0;
  }
  if (!any) return nullptr;
  if (args.keys == nullptr || args.values == nullptr || args.store == nullptr) {
    return "hack_append: null tensor";
  }
  if (reinterpret_cast<std::uintptr_t>(args.store) % 64 != 0) {
    return "hack_append: the store is 64-byte aligned";
  }
  return nullptr;
}

const char* problem(const HackAttention& args) {
  if (const char* what = problem(args.shape)) return what;
  if (args.sequences < 0) return "hack_attention: a negative number of sequences";
  if (args.query_heads < 1 || args.query_heads % args.shape.kv_heads != 0) {
    return "hack_attention: query heads are a multiple of kv heads";
  }
  if (!std::isfinite(args.scale)) return "hack_attention: the scale is finite";
  if (args.sequences == 0) return nullptr;
  if (args.kv_tokens == nullptr) return "hack_attention: null counts";
  bool any = false;
  for (int i = 0; i < args.sequences; ++i) {
    if (args.kv_tokens[i] < 0) return "hack_attention: a negative count";
    if (args.kv_tokens[i] > args.shape.capacity) {
      return "hack_attention: more tokens than the capacity";
    }
    any |= args.kv_tokens[i] > 0;
  }
  if (args.out == nullptr || args.query == nullptr) return "hack_attention: null tensor";
  if (!any) return nullptr;
  if (args.store == nullptr) return "hack_attention: null store";
  if (reinterpret_cast<std::uintptr_t>(args.store) % 64 != 0) {
    return "hack_attention: the store is 64-byte aligned";
  }
  return nullptr;
}

}  // namespace kvlane::kernels
