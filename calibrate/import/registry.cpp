#include <algorithm>

#include "calibrate/import/formats.h"

namespace kvlane::calibrate {

const std::vector<ImportFormat>& import_formats() {
  static const std::vector<ImportFormat> formats = {
      aiconfigurator_format(),  vidur_format(),        llmservingsim_format(),
      frontier_format(),        llmcompass_format(),   l20_format(),
      splitwise_format(),       tensorrt_llm_format(), llm_inference_bench_format(),
      perftest_curves_format(), perftest_format(),     nixlbench_format(),
      mooncake_format(),        pcie_format()};
  return formats;
}

const ImportFormat* find_format(std::string_view name) {
  const auto& formats = import_formats();
  const auto found = std::find_if(formats.begin(), formats.end(),
                                  [&](const ImportFormat& format) { return format.name == name; });
  return found == formats.end() ? nullptr : &*found;
}

}  // namespace kvlane::calibrate
