#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "calibrate/import/csv_table.h"
#include "calibrate/import/formats.h"
#include "sim/base/check.h"

namespace kvlane::calibrate {
namespace {

// What a product of cells, each fine by itself, can still do: a size that no sample file holds, a
// time that rounds to nothing.
void check(const Sample& sample, const std::string& path) {
  const auto& names = sample_dimensions(sample.kernel);
  KVLANE_CHECK(sample.shape.size() == names.size(), "{} of {} sizes", sample.kernel,
               sample.shape.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::int64_t least = names[i] == "cached_tokens" ? 0 : 1;
    if (sample.shape[i] < least || sample.shape[i] > CsvTable::kLargestSize) {
      throw InputError(
          {path, 0, 0},
          fmt::format("a row that makes {} {} of {}", sample.shape[i], names[i], sample.kernel),
          fmt::format("expected {} to 1e15", least));
    }
  }
  if (!std::isfinite(sample.seconds) || sample.seconds <= 0) {
    throw InputError({path, 0, 0}, fmt::format("a row that makes {} s", sample.seconds),
                     "expected a time above zero");
  }
}

ImportFormat checked(ImportFormat format) {
  format.read = [read = std::move(format.read)](const std::string& path, std::string_view text,
                                                const ImportOptions& options, Imported& out) {
    const std::size_t before = out.samples.size();
    read(path, text, options, out);
    for (std::size_t i = before; i < out.samples.size(); ++i) check(out.samples[i], path);
  };
  return format;
}

std::vector<ImportFormat> all_checked(std::vector<ImportFormat> formats) {
  for (ImportFormat& format : formats) format = checked(std::move(format));
  return formats;
}

}  // namespace

const std::vector<ImportFormat>& import_formats() {
  static const std::vector<ImportFormat> formats =
      all_checked({aiconfigurator_format(), vidur_format(), llmservingsim_format(),
                   frontier_format(), llmcompass_format(), l20_format(), splitwise_format(),
                   tensorrt_llm_format(), llm_inference_bench_format(), perftest_curves_format(),
                   perftest_format(), nixlbench_format(), mooncake_format(), pcie_format()});
  return formats;
}

const ImportFormat* find_format(std::string_view name) {
  const auto& formats = import_formats();
  const auto found = std::find_if(formats.begin(), formats.end(),
                                  [&](const ImportFormat& format) { return format.name == name; });
  return found == formats.end() ? nullptr : &*found;
}

}  // namespace kvlane::calibrate
