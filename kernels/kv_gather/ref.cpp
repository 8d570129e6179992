#include <cstring>

#include "kernels/common/argument.h"
#include "kernels/kv_gather/kernel.h"

namespace kvlane::kernels {

namespace {

// body(row of the cache, row of the packed buffer), both as bytes, for every row that counts.
template <typename Body>
void each_row(const KvGather& args, Body&& body) {
  require(problem(args));
  const std::size_t bytes = args.kv.row_bytes();
  for (int s = 0; s < args.sequences; ++s) {
    for (int h = 0; h < args.kv.kv_heads; ++h) {
      const auto pair = static_cast<std::size_t>(s * args.kv.kv_heads + h);
      const int count = args.index_count == nullptr ? args.index_width : args.index_count[pair];
      for (int i = 0; i < count; ++i) {
        const std::size_t at =
            pair * static_cast<std::size_t>(args.index_width) + static_cast<std::size_t>(i);
        body(args.kv.row(s, h, args.index[at]) * bytes, at * bytes);
      }
    }
  }
}

}  // namespace

void ref::kv_gather(const KvGather& args) {
  each_row(args, [&](std::size_t from, std::size_t to) {
    std::memcpy(static_cast<std::byte*>(args.packed) + to,
                static_cast<const std::byte*>(args.kv.rows) + from, args.kv.row_bytes());
  });
}

void ref::kv_scatter(const KvGather& args) {
  each_row(args, [&](std::size_t to, std::size_t from) {
    std::memcpy(static_cast<std::byte*>(const_cast<void*>(args.kv.rows)) + to,
                static_cast<const std::byte*>(args.packed) + from, args.kv.row_bytes());
  });
}

}  // namespace kvlane::kernels
