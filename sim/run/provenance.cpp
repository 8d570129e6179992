#include "sim/run/provenance.h"

#include <algorithm>
#include <set>
#include <utility>

#include "sim/report/number_format.h"
#include "sim/run/deployment.h"

namespace kvlane {
namespace {

struct Weakest {
  Source source = Source::measured;
  std::string constant;  // the first of this source, in the order of the scenario

  void add(Source other, const std::string& name) {
    if (!constant.empty() && other <= source) return;
    source = other;
    constant = name;
  }
};

Weakest weakest_of(const Scenario& scenario, const std::vector<std::unique_ptr<CostModel>>& models,
                   const std::vector<const StrategyOptions*>& strategies) {
  Weakest weakest;
  for (std::size_t g = 0; g < models.size(); ++g) {
    const CostModel& model = *models[g];
    for (const auto& [key, source] : model.gpu().source) {
      if (model.usage().rests_on(key, model.fp8_gemm(), model.tp()))
        weakest.add(source, model.gpu().name + ' ' + key);
    }
    const InstanceGroup& group = scenario.instances[g];
    for (const auto& [key, source] : group.nic_source) {
      if (key != "error") weakest.add(source, group.nic.name + ' ' + key);
    }
  }
  for (const StrategyOptions* strategy : strategies) {
    if (attends_to_all(*strategy)) continue;
    const Selector selector = strategy->selection.value_or(scenario.selection.method);
    weakest.add(
        selection_source(scenario.selection.spec, selector, scenario.model.name).source_class,
        "selection statistics");
  }
  return weakest;
}

// Instances with one GPU model count as one.
struct UsedGpu {
  const GpuSpec* spec;
  KernelUsage usage;
};

std::vector<UsedGpu> used_gpus(const std::vector<std::unique_ptr<CostModel>>& models) {
  std::vector<UsedGpu> gpus;
  for (const auto& model : models) {
    const auto same = std::find_if(gpus.begin(), gpus.end(), [&](const UsedGpu& other) {
      return other.spec->name == model->gpu().name;
    });
    if (same == gpus.end()) {
      gpus.push_back({&model->gpu(), model->usage()});
    } else {
      same->usage.merge(model->usage());
    }
  }
  return gpus;
}

std::string size_text(KernelClass kernel, const std::string& dimension, double value) {
  // A mean of tokens need not be whole, which tells nothing beyond a hundred.
  const std::string number =
      value >= 100 ? fmt::format("{:.0f}", value) : fmt::format("{:.4g}", value);
  if (kernel == KernelClass::gemm) return dimension + " = " + number;
  std::string words = dimension;
  std::replace(words.begin(), words.end(), '_', ' ');
  return number + ' ' + words;
}

// One warning a kernel: a matrix has three dimensions, and whoever leaves one leaves others.
void add_outside(Result& result, const UsedGpu& gpu) {
  std::string text;
  KernelClass last = KernelClass::gemm;
  const auto flush = [&] {
    if (!text.empty())
      result.warnings.push_back(
          fmt::format("{} {}: {}: extrapolated", gpu.spec->name, to_string(last), text));
    text.clear();
  };
  for (const KernelUsage::Outside& out : gpu.usage.outside(*gpu.spec)) {
    if (out.kernel != last) flush();
    last = out.kernel;
    text += fmt::format("{}{}, fitted to {} ... {}", text.empty() ? "" : "; ",
                        size_text(out.kernel, out.range.dimension, out.value),
                        shortest(out.range.low), shortest(out.range.high));
    result.outside_domain.push_back({gpu.spec->name, to_string(out.kernel), out.range.dimension,
                                     out.value, out.range.low, out.range.high});
  }
  flush();
}

void add_tables(Result& result, const UsedGpu& gpu) {
  for (std::size_t k = 0; k < kKernelClasses; ++k) {
    const auto kernel = static_cast<KernelClass>(k);
    const KernelUsage::TableUse& use = gpu.usage.table(kernel);
    // A table without this kernel answers nothing, which is no news.
    if (use.inside == 0) continue;
    TableUse row{gpu.spec->name, to_string(kernel), use.inside, use.outside, ""};
    if (use.outside > 0) {
      const std::vector<std::string>& names = domain_dimensions(kernel);
      for (std::size_t d = 0; d < names.size(); ++d) {
        row.first_outside +=
            fmt::format("{}{}={}", d == 0 ? "" : ", ", names[d], use.first_outside[d]);
      }
    }
    result.from_table.push_back(std::move(row));
  }
}

void add_without_error(Result& result, const UsedGpu& gpu) {
  std::string words;
  for (std::size_t k = 0; k < kKernelClasses; ++k) {
    const auto kernel = static_cast<KernelClass>(k);
    if (!gpu.usage.used(kernel) || gpu.spec->fits.contains(kernel)) continue;
    words += (words.empty() ? "" : ", ") + std::string(to_string(kernel));
  }
  if (!words.empty()) {
    result.without_error.push_back(fmt::format("{} ({})", gpu.spec->name, words));
  }
}

}  // namespace

void add_provenance(Result& result, const Scenario& scenario,
                    const std::vector<std::unique_ptr<CostModel>>& models,
                    const std::vector<const StrategyOptions*>& strategies) {
  const Weakest weakest = weakest_of(scenario, models, strategies);
  result.weakest_source = to_string(weakest.source);
  result.weakest_constant = weakest.constant;
  for (const UsedGpu& gpu : used_gpus(models)) {
    add_outside(result, gpu);
    add_tables(result, gpu);
    add_without_error(result, gpu);
  }
  std::set<std::string> nics;
  for (const InstanceGroup& group : scenario.instances) {
    if (!group.nic.error && nics.insert(group.nic.name).second)
      result.without_error.push_back(group.nic.name);
  }
}

}  // namespace kvlane
