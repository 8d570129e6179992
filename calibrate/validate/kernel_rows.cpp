#include "calibrate/validate/kernel_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <string>

#include "calibrate/fit/predict.h"
#include "calibrate/validate/row_collector.h"
#include "sim/gpu/find_gpu.h"
#include "sim/gpu/grid_table.h"
#include "sim/gpu/kernel_work.h"
#include "sim/gpu/sample_cost.h"

namespace kvlane::calibrate {
namespace {

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

// Half of these sources' shapes went into the shipped constants.
bool is_fitted_source(const Sample& sample) {
  if (is_own(sample)) return true;
  const std::string source = lower(sample.source);
  const bool v0 = has(lower(sample.variant), "v0") && sample.kernel != "prefix_attention";
  return has(source, "aiconfigurator") || has(source, "frontier") ||
         (has(source, "llmservingsim") && !v0);
}

std::string word_of(const Sample& sample) {
  static const std::map<std::string, std::string> words = {{"gemm", "gemm"},
                                                           {"prefill_attention", "prefill"},
                                                           {"prefix_attention", "prefix"},
                                                           {"decode_attention", "decode"},
                                                           {"mixed_attention", "mixed"},
                                                           {"elementwise", "elementwise"},
                                                           {"all_reduce", "collective"}};
  const auto found = words.find(sample.kernel);
  if (found == words.end()) {
    const auto& costed = costed_kernels();
    const bool own =
        is_own(sample) && std::find(costed.begin(), costed.end(), sample.kernel) != costed.end();
    return own ? sample.kernel : "";
  }
  return sample.dtype == "fp8" ? found->second + "_fp8" : found->second;
}

std::string band(const char* what, std::int64_t value, std::initializer_list<std::int64_t> bounds) {
  std::int64_t low = 1;
  for (const std::int64_t bound : bounds) {
    if (value <= bound) return fmt::format("{} {}-{}", what, low, bound);
    low = bound + 1;
  }
  return fmt::format("{} >= {}", what, low);
}

// Part of the domain that a shape belongs to.
std::string region_of(const Sample& sample) {
  const auto size = [&](const char* name) { return dimension(sample, name); };
  if (sample.kernel == "gemm") return band("m", size("m"), {16, 128, 1024});
  if (sample.kernel == "prefill_attention") return band("tokens", size("tokens"), {511, 2047});
  if (sample.kernel == "prefix_attention") return band("chunk", size("new_tokens"), {128, 512});
  if (sample.kernel == "decode_attention") return band("batch", size("sequences"), {8, 64});
  if (sample.kernel == "mixed_attention") return band("decodes", size("sequences"), {8, 64});
  if (sample.kernel == "elementwise") return band("bytes", size("bytes"), {65'536, 16'777'216});
  if (sample.kernel == "all_reduce") return fmt::format("{} ranks", size("ranks"));
  return "";  // one row is enough
}

// The source of a row: attention kernels differ by library, GEMMs are one row a data set.
std::string source_of(const Sample& sample) {
  if (is_own(sample)) return kOwnSource;
  const std::string data = sample.source.substr(0, sample.source.find_first_of(" @"));
  const bool one = sample.kernel == "gemm" || sample.kernel == "elementwise";
  return one ? data : data + ' ' + sample.variant.substr(0, sample.variant.find(' '));
}

void add(RowCollector& rows, const std::string& what, const Sample& sample,
         const std::string& domain, double predicted) {
  rows.add(what, sample.machine, source_of(sample), domain, predicted, sample.seconds);
}

// Samples by machine, of those that have a hardware file.
std::map<std::string, std::vector<const Sample*>> by_machine(const std::vector<Sample>& samples) {
  std::map<std::string, std::vector<const Sample*>> machines;
  for (const Sample& sample : samples) machines[sample.machine].push_back(&sample);
  return machines;
}

}  // namespace

std::vector<ValidationRow> kernel_rows(const std::vector<Sample>& samples,
                                       const std::vector<GpuSpec>& gpus, const PointSink& points) {
  RowCollector held(true), second(true);
  for (const auto& [machine, list] : by_machine(samples)) {
    const GpuSpec* gpu = find_gpu(gpus, machine);
    if (gpu == nullptr) continue;
    const SampleCost cost(*gpu);
    for (const Sample* sample : list) {
      const std::string what = word_of(*sample);
      if (what.empty()) continue;
      const bool fitted = is_fitted_source(*sample);
      if (fitted && !held_out(*sample)) continue;
      const auto predicted = cost.seconds(*sample);
      if (!predicted) continue;
      RowCollector& rows = fitted ? held : second;
      const bool inside = in_domain(*gpu, *sample);
      // The RTX 4090's mark is about all sizes, small caches included.
      const bool counts = sample->set_aside.empty() || (sample->set_aside == "l2_resident" &&
                                                        what == "decode" && machine == "RTX-4090");
      if (inside && counts) {
        add(rows, what, *sample, kMarkDomain, *predicted);
        if (points) points(what, fitted ? "held out" : "another source", *sample, *predicted);
        const std::string region = region_of(*sample);
        if (fitted && !region.empty()) add(rows, what, *sample, region, *predicted);
      } else if (inside) {
        add(rows, what, *sample, "set aside: " + sample->set_aside, *predicted);
      } else if (sample->set_aside.empty()) {
        add(rows, what, *sample, "outside the domain", *predicted);
      }
    }
  }
  std::vector<ValidationRow> result = held.take("held out");
  for (ValidationRow& row : second.take("another source")) {
    row.mark.reset();  // marks are about held-out shapes of the source that was fitted
    row.holds.reset();
    if (row.domain == kMarkDomain) row.domain = "another source";
    result.push_back(std::move(row));
  }
  return result;
}

std::vector<ValidationRow> table_rows(const std::vector<Sample>& samples,
                                      const std::vector<GpuSpec>& gpus) {
  RowCollector rows(true);
  for (const auto& [machine, list] : by_machine(samples)) {
    const GpuSpec* gpu = find_gpu(gpus, machine);
    if (gpu == nullptr) continue;
    // One table a kernel, data type and variant.
    std::map<std::string, std::vector<const Sample*>> groups;
    for (const Sample* sample : list) {
      if (is_fitted_source(*sample) && sample->set_aside.empty() && table_shape(*sample)) {
        groups[word_of(*sample) + '/' + source_of(*sample)].push_back(sample);
      }
    }
    const SampleCost cost(*gpu);
    for (const auto& [name, group] : groups) {
      std::vector<Sample> known;
      for (const Sample* sample : group) {
        if (!held_out(*sample)) known.push_back(*sample);
        if (!held_out(*sample)) known.back().variant = name;
      }
      const GridTable table = make_grid_table(*gpu, known);
      for (const Sample* sample : group) {
        if (!held_out(*sample) || !in_domain(*gpu, *sample)) continue;
        const auto formula = cost.seconds(*sample);
        const auto factor = table.factor(*table_shape(*sample));
        if (!formula || !factor) continue;
        add(rows, "table_" + word_of(*sample), *sample, kMarkDomain, *formula * *factor);
      }
    }
  }
  return rows.take("inside the grid");
}

std::vector<ValidationRow> disagreement_rows(const std::vector<Sample>& samples,
                                             const std::vector<GpuSpec>& gpus) {
  RowCollector rows(true);
  for (const auto& [machine, list] : by_machine(samples)) {
    const GpuSpec* gpu = find_gpu(gpus, machine);
    if (gpu == nullptr) continue;
    std::vector<Sample> fitted;
    std::vector<const Sample*> other;
    for (const Sample* sample : list) {
      if (sample->kernel != "gemm" || sample->dtype == "fp8" || !sample->set_aside.empty())
        continue;
      if (is_fitted_source(*sample)) {
        fitted.push_back(*sample);
        fitted.back().variant = "";
      } else {
        other.push_back(sample);
      }
    }
    if (fitted.empty() || other.empty()) continue;
    const GridTable table = make_grid_table(*gpu, fitted);
    const SampleCost cost(*gpu);
    for (const Sample* sample : other) {
      const auto formula = cost.seconds(*sample);
      const auto factor = table.factor(*table_shape(*sample));
      if (!formula || !factor) continue;
      rows.add("gemm_between_sources", machine, source_of(*sample),
               dimension(*sample, "m") <= 64 ? "m <= 64" : "m > 64", *formula * *factor,
               sample->seconds);
    }
  }
  return rows.take("all");
}

}  // namespace kvlane::calibrate
