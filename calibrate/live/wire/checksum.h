#pragma once
// CRC-32 (zlib's) of what crosses a wire.

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace kvlane::live {

// `before`: the checksum of what came before, 0 at the start.
inline std::uint32_t checksum(std::span<const std::byte> bytes, std::uint32_t before = 0) {
  if (bytes.empty()) return before;  // zlib takes a null pointer for the start of a new sum
  return static_cast<std::uint32_t>(
      ::crc32_z(before, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace kvlane::live
