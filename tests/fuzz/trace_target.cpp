// The reader of selection traces. Traces are gzip files, whose checksum a fuzzer cannot guess: an
// input that is not gzip is packed first, so that the header line and the body behind it are what
// is fuzzed.

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/base/input_error.h"
#include "sim/select/replay.h"

namespace {

std::vector<std::uint8_t> gzip(std::span<const std::uint8_t> bytes) {
  z_stream stream{};
  constexpr int kGzip = 15 + 16;
  if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, kGzip, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    return {};
  std::vector<std::uint8_t> packed(deflateBound(&stream, static_cast<uLong>(bytes.size())));
  stream.next_in = const_cast<Bytef*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = packed.data();
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::uint8_t> bytes(data, size);
  const bool packed = size >= 2 && data[0] == 0x1f && data[1] == 0x8b;
  try {
    if (packed)
      kvlane::read_selection_trace(bytes, "fuzz.kvsel.gz");
    else
      kvlane::read_selection_trace(gzip(bytes), "fuzz.kvsel.gz");
  } catch (const kvlane::InputError&) {
  }
  return 0;
}
