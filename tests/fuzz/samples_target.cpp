// The reader of sample files, and that what it accepts is written and read the same.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "sim/base/check.h"
#include "sim/base/input_error.h"
#include "sim/scenario/sample_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<kvlane::Sample> samples;
  try {
    samples = kvlane::parse_samples(text, "samples.jsonl");
  } catch (const kvlane::InputError&) {
    return 0;
  }
  std::string lines;
  for (const kvlane::Sample& sample : samples) lines += kvlane::sample_line(sample);
  KVLANE_CHECK(kvlane::parse_samples(lines, "samples.jsonl") == samples, "{} samples changed",
               samples.size());
  return 0;
}
