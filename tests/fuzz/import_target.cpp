// The readers of other projects' tables. The first byte picks the format (its place in the list,
// 'a' the first), the line behind it is the file's name, which some formats read too.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/import/artefacts.h"
#include "calibrate/import/import.h"
#include "sim/base/check.h"
#include "sim/base/input_error.h"
#include "sim/scenario/sample_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  if (text.empty()) return 0;
  const auto& formats = kvlane::calibrate::import_formats();
  const std::size_t pick = (static_cast<std::uint8_t>(text[0]) - std::size_t{'a'}) % formats.size();
  text.remove_prefix(1);
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string name(text.substr(0, end));
  text.remove_prefix(std::min(end + 1, text.size()));
  kvlane::calibrate::Imported imported;
  try {
    formats[pick].read(name, text, {"NIC", "fuzz", "none"}, imported);
  } catch (const kvlane::InputError&) {
    return 0;
  }
  kvlane::calibrate::set_artefacts_aside(imported.samples, {});
  // What an importer lets through is a sample file.
  std::string lines;
  for (const kvlane::Sample& sample : imported.samples) lines += kvlane::sample_line(sample);
  const auto again = kvlane::parse_samples(lines, "samples.jsonl");
  KVLANE_CHECK(again.size() == imported.samples.size(), "{} samples, {} read again",
               imported.samples.size(), again.size());
  return 0;
}
