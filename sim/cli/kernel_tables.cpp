#include "sim/cli/kernel_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "sim/base/input_error.h"
#include "sim/gpu/grid_table.h"
#include "sim/gpu/sample_cost.h"
#include "sim/scenario/sample_file.h"

namespace kvlane::cli {
namespace {

bool contains_one(const std::string& text, const std::vector<std::string>& parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](const std::string& part) { return text.find(part) != std::string::npos; });
}

std::string group_of(const Sample& sample) {
  return sample.kernel + (sample.dtype.empty() ? "" : ' ' + sample.dtype);
}

// Of one GPU: one variant of each kernel.
std::vector<Sample> choose(std::vector<Sample> samples, const std::vector<std::string>& variants,
                           const std::string& gpu, const std::string& path) {
  const auto names_of = [&] {
    std::map<std::string, std::set<std::string>> names;
    for (const Sample& sample : samples) names[group_of(sample)].insert(sample.variant);
    return names;
  };
  const auto before = names_of();
  std::erase_if(samples, [&](const Sample& sample) {
    return before.at(group_of(sample)).size() > 1 && !variants.empty() &&
           !contains_one(sample.variant, variants);
  });
  for (const auto& [group, names] : names_of()) {
    if (names.size() == 1) continue;
    throw InputError({path, 0, 0},
                     fmt::format("{} of {} in {} variants: {}", group, gpu, names.size(),
                                 fmt::join(names, "; ")),
                     "expected --table-variant TEXT to choose one");
  }
  return samples;
}

}  // namespace

KernelTables read_tables(const std::vector<std::string>& paths,
                         const std::vector<std::string>& variants, const Scenario& scenario,
                         InputFiles& files) {
  std::map<std::string, std::vector<Sample>> by_gpu;
  for (const InstanceGroup& group : scenario.instances) by_gpu[group.gpu.name];
  for (const std::string& path : paths) {
    std::size_t kept = 0;
    for (Sample& sample : parse_samples(files.read(path, {path, 0, 0}), path)) {
      const auto found = by_gpu.find(sample.machine);
      if (found == by_gpu.end() || !sample.set_aside.empty() || !table_shape(sample)) continue;
      found->second.push_back(std::move(sample));
      ++kept;
    }
    if (kept > 0) continue;
    std::string names;
    for (const auto& entry : by_gpu) names += (names.empty() ? "" : ", ") + entry.first;
    throw InputError({path, 0, 0}, "no kernel of the scenario's GPUs in the table",
                     fmt::format("expected samples of {}", names));
  }
  KernelTables tables;
  for (const InstanceGroup& group : scenario.instances) {
    std::vector<Sample>& samples = by_gpu[group.gpu.name];
    if (samples.empty() || tables.contains(group.gpu.name)) continue;
    const auto chosen = choose(std::move(samples), variants, group.gpu.name, paths.front());
    tables.emplace(group.gpu.name, std::make_shared<GridTable>(make_grid_table(group.gpu, chosen)));
  }
  return tables;
}

}  // namespace kvlane::cli
