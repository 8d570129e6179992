#include "kernels/kv_gather/copies.h"

#include "kernels/common/argument.h"

namespace kvlane::kernels {

namespace {

std::byte* bytes_at(const void* memory, std::size_t offset) {
  return static_cast<std::byte*>(const_cast<void*>(memory)) + offset;
}

int count_of(const KvGather& args, std::size_t pair) {
  return args.index_count == nullptr ? args.index_width : args.index_count[pair];
}

// body(byte of the cache, byte of the packed buffer) for every row that counts.
template <typename Body>
void each_row(const KvGather& args, Body&& body) {
  require(problem(args));
  const std::size_t bytes = args.kv.row_bytes(), width = static_cast<std::size_t>(args.index_width);
  for (int s = 0; s < args.sequences; ++s) {
    for (int h = 0; h < args.kv.kv_heads; ++h) {
      const auto pair = static_cast<std::size_t>(s) * static_cast<std::size_t>(args.kv.kv_heads) +
                        static_cast<std::size_t>(h);
      const auto count = static_cast<std::size_t>(count_of(args, pair));
      for (std::size_t i = pair * width; i < pair * width + count; ++i) {
        body(args.kv.row(s, h, args.index[i]) * bytes, i * bytes);
      }
    }
  }
}

}  // namespace

void Copies::add(void* destination, const void* source, std::size_t count) {
  if (count == 0) return;
  if (!bytes.empty() && bytes_at(to.back(), bytes.back()) == destination &&
      bytes_at(from.back(), bytes.back()) == source) {
    bytes.back() += count;
    return;
  }
  to.push_back(destination);
  from.push_back(source);
  bytes.push_back(count);
}

void add_gather_copies(const KvGather& args, Copies& copies) {
  each_row(args, [&](std::size_t row, std::size_t packed) {
    copies.add(bytes_at(args.packed, packed), bytes_at(args.kv.rows, row), args.kv.row_bytes());
  });
}

void add_scatter_copies(const KvGather& args, Copies& copies) {
  each_row(args, [&](std::size_t row, std::size_t packed) {
    copies.add(bytes_at(args.kv.rows, row), bytes_at(args.packed, packed), args.kv.row_bytes());
  });
}

void add_packed_copies(const KvGather& args, const void* from, Copies& copies) {
  require(problem(args));
  const std::size_t bytes = args.kv.row_bytes();
  const auto pairs =
      static_cast<std::size_t>(args.sequences) * static_cast<std::size_t>(args.kv.kv_heads);
  for (std::size_t pair = 0; pair < pairs; ++pair) {
    const std::size_t at = pair * static_cast<std::size_t>(args.index_width) * bytes;
    copies.add(bytes_at(args.packed, at), bytes_at(from, at),
               static_cast<std::size_t>(count_of(args, pair)) * bytes);
  }
}

}  // namespace kvlane::kernels
