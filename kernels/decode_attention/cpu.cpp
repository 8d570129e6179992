// Version 1: kernels/common/attend-inl.h over the rows that the block table names.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/decode_attention/cpu.cpp"
#include <hwy/foreach_target.h>

#include "kernels/common/argument.h"
#include "kernels/common/attend-inl.h"
#include "kernels/decode_attention/kernel.h"

HWY_BEFORE_NAMESPACE();
namespace kvlane::kernels {
namespace HWY_NAMESPACE {

template <class T>
void decode_in(const DecodeAttention& args, Cpu& cpu) {
  const KvCache& kv = args.kv;
  const AttendShape shape{static_cast<std::size_t>(args.sequences),
                          static_cast<std::size_t>(kv.kv_heads),
                          static_cast<std::size_t>(args.query_heads / kv.kv_heads),
                          static_cast<std::size_t>(kv.head_dim),
                          args.scale,
                          args.soft_cap};
  const auto skipped = [&](std::size_t sequence) {
    const int n = args.kv_tokens[sequence];
    return args.window > 0 && n > args.window ? n - args.window : 0;
  };
  const auto rows_of = [&](std::size_t sequence, std::size_t) {
    return static_cast<std::size_t>(args.kv_tokens[sequence] - skipped(sequence));
  };
  std::size_t most = 0;
  for (std::size_t i = 0; i < shape.sequences; ++i) most = std::max(most, rows_of(i, 0));
  const auto* base = static_cast<const T*>(kv.rows);
  attend_all<T>(
      shape, static_cast<const T*>(args.query), static_cast<T*>(args.out), most, rows_of,
      [&](std::size_t sequence, std::size_t head, std::size_t first, std::size_t n, const T** to) {
        int token = skipped(sequence) + static_cast<int>(first);
        for (std::size_t i = 0; i < n;) {
          const T* row = base + kv.row(static_cast<int>(sequence), static_cast<int>(head), token) *
                                    kv.row_elements();
          const int in_block = kv.block_tokens - token % kv.block_tokens;
          const std::size_t end = std::min(n, i + static_cast<std::size_t>(in_block));
          token += static_cast<int>(end - i);
          for (; i < end; ++i, row += kv.row_elements()) to[i] = row;
        }
      },
      cpu);
}

void run(const DecodeAttention& args, Cpu& cpu) {
  with_elements(args.kv.format,
                [&](auto element) { decode_in<typename decltype(element)::type>(args, cpu); });
}

}  // namespace HWY_NAMESPACE
}  // namespace kvlane::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvlane::kernels {

HWY_EXPORT(run);

void cpu::decode_attention(const DecodeAttention& args, Cpu& cpu) {
  require(problem(args));
  HWY_DYNAMIC_DISPATCH(run)(args, cpu);
}

}  // namespace kvlane::kernels
#endif
