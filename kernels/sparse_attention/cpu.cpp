// Version 1: kernels/common/attend-inl.h over the rows that the index names.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/sparse_attention/cpu.cpp"
#include <hwy/foreach_target.h>

#include "kernels/common/argument.h"
#include "kernels/common/attend-inl.h"
#include "kernels/sparse_attention/kernel.h"

HWY_BEFORE_NAMESPACE();
namespace kvlane::kernels {
namespace HWY_NAMESPACE {

template <class T>
void sparse_in(const SparseAttention& args, Cpu& cpu) {
  const KvCache& kv = args.kv;
  const AttendShape shape{static_cast<std::size_t>(args.sequences),
                          static_cast<std::size_t>(kv.kv_heads),
                          static_cast<std::size_t>(args.query_heads / kv.kv_heads),
                          static_cast<std::size_t>(kv.head_dim),
                          args.scale,
                          args.soft_cap};
  const auto width = static_cast<std::size_t>(args.index_width);
  const auto rows_of = [&](std::size_t sequence, std::size_t head) {
    return args.index_count == nullptr
               ? width
               : static_cast<std::size_t>(args.index_count[sequence * shape.kv_heads + head]);
  };
  const auto* base = static_cast<const T*>(kv.rows);
  const std::size_t row_elements = kv.row_elements();
  attend_all<T>(
      shape, static_cast<const T*>(args.query), static_cast<T*>(args.out), width, rows_of,
      [&](std::size_t sequence, std::size_t head, std::size_t first, std::size_t n, const T** to) {
        const std::int32_t* index = args.index + (sequence * shape.kv_heads + head) * width + first;
        const KvRows rows(kv, sequence, head);
        for (std::size_t i = 0; i < n; ++i) to[i] = base + rows(index[i]) * row_elements;
      },
      cpu);
}

void run(const SparseAttention& args, Cpu& cpu) {
  with_elements(args.kv.format,
                [&](auto element) { sparse_in<typename decltype(element)::type>(args, cpu); });
}

}  // namespace HWY_NAMESPACE
}  // namespace kvlane::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvlane::kernels {

HWY_EXPORT(run);

void cpu::sparse_attention(const SparseAttention& args, Cpu& cpu) {
  require(problem(args));
  HWY_DYNAMIC_DISPATCH(run)(args, cpu);
}

}  // namespace kvlane::kernels
#endif
