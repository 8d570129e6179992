#pragma once
// A paged KV cache of the tests (kernel_cases.h) copied to the device.

#include "tests/support/cuda_test.h"
#include "tests/support/kernel_cases.h"

namespace kvlane::kernels::testing {

inline DeviceArray<std::byte> to_device(const Buffer& buffer) {
  DeviceArray<std::byte> array(buffer.bytes());
  cuda::copy(array.data(), buffer.data(), buffer.bytes());
  cuda::synchronize();
  return array;
}

struct DeviceKvCache {
  explicit DeviceKvCache(const PagedKv& kv)
      : rows(to_device(kv.rows)), table(kv.table), tokens(kv.tokens), cache(kv.cache) {
    cache.rows = rows.data();
    cache.block_table = table.data();
  }
  DeviceArray<std::byte> rows;
  DeviceArray<std::int32_t> table, tokens;
  KvCache cache;
};

}  // namespace kvlane::kernels::testing
