#include "calibrate/import/artefacts.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "sim/gpu/find_gpu.h"

namespace kvlane::calibrate {
namespace {

constexpr double kL2Share = 1.2;
constexpr double kThrottled = 1.5;
constexpr std::size_t kLeastCopied = 20;  // fewer equal rows can be chance

bool is_kernel(const Sample& sample) {
  return !std::string_view(sample.kernel).starts_with("serving");
}

std::string shape_key(const Sample& sample) {
  std::string key = sample.kernel + '/' + sample.dtype;
  for (const std::int64_t size : sample.shape) key += ',' + std::to_string(size);
  return key;
}

void mark_duplicates(std::vector<Sample>& samples) {
  std::unordered_set<std::string> seen;
  for (Sample& sample : samples) {
    // Elementwise samples know their bytes only: equal bytes are not one shape.
    if (!is_kernel(sample) || sample.kernel == "elementwise" || !sample.set_aside.empty()) continue;
    const std::string key =
        sample.machine + '/' + sample.source + '/' + sample.variant + '/' + shape_key(sample);
    if (!seen.insert(key).second) sample.set_aside = "duplicate";
  }
}

// Machines in the order of their first row: the first of two equal tables counts as the original.
void mark_copies(std::vector<Sample>& samples) {
  struct Table {
    std::string machine;
    std::vector<Sample*> rows;
    bool copied = false;
  };
  std::map<std::string, std::vector<Table>> sources;  // by source, kernel and variant's first word
  for (Sample& sample : samples) {
    if (!is_kernel(sample) || !sample.set_aside.empty()) continue;
    auto& tables = sources[sample.source + '/' + sample.kernel + '/' + sample.dtype];
    auto found = std::find_if(tables.begin(), tables.end(),
                              [&](const Table& table) { return table.machine == sample.machine; });
    if (found == tables.end()) {
      tables.push_back({sample.machine, {}, false});
      found = std::prev(tables.end());
    }
    found->rows.push_back(&sample);
  }
  for (auto& [source, tables] : sources) {
    std::vector<std::unordered_map<std::string, double>> originals;
    for (Table& table : tables) {
      std::unordered_map<std::string, double> rows;
      for (const Sample* row : table.rows) rows.emplace(shape_key(*row), row->seconds);
      const bool copied =
          table.rows.size() >= kLeastCopied &&
          std::any_of(originals.begin(), originals.end(), [&](const auto& original) {
            return std::all_of(table.rows.begin(), table.rows.end(), [&](const Sample* row) {
              const auto same = original.find(shape_key(*row));
              return same != original.end() && same->second == row->seconds;
            });
          });
      if (copied) {
        for (Sample* row : table.rows) row->set_aside = "copied";
      } else {
        originals.push_back(std::move(rows));
      }
    }
  }
}

double operand_bytes(const Sample& sample) {
  const auto size = [&](const char* name) { return static_cast<double>(dimension(sample, name)); };
  const bool narrow = sample.dtype == "fp8" || sample.dtype == "int8";
  const double element = narrow ? 1 : sample.dtype == "fp32" ? 4 : 2;
  if (sample.kernel == "gemm") {
    return element * (size("m") * size("k") + size("k") * size("n")) + 2 * size("m") * size("n");
  }
  return 2 * size("sequences") * size("kv_tokens") * size("kv_heads") * size("head_width") *
         element;
}

void mark_l2(std::vector<Sample>& samples, const std::vector<GpuSpec>& known) {
  for (Sample& sample : samples) {
    const bool decode = sample.kernel == "decode_attention";
    if (!sample.set_aside.empty() || (!decode && sample.kernel != "gemm")) continue;
    const GpuSpec* gpu = find_gpu(known, sample.machine);
    if (gpu == nullptr) continue;
    const double bytes = operand_bytes(sample);
    const bool fits = decode && bytes <= kL2Share * static_cast<double>(gpu->l2.count());
    if (fits || bytes / sample.seconds > gpu->memory_bandwidth) sample.set_aside = "l2_resident";
  }
}

void mark_throttled(std::vector<Sample>& samples) {
  using Key =
      std::tuple<std::string, std::string, std::string, std::string, std::int64_t, std::int64_t>;
  std::map<Key, std::vector<Sample*>> columns;
  for (Sample& sample : samples) {
    if (sample.kernel != "gemm" || !sample.set_aside.empty()) continue;
    columns[{sample.machine, sample.source, sample.variant, sample.dtype, dimension(sample, "n"),
             dimension(sample, "k")}]
        .push_back(&sample);
  }
  for (auto& [key, rows] : columns) {
    std::stable_sort(rows.begin(), rows.end(), [](const Sample* a, const Sample* b) {
      return dimension(*a, "m") < dimension(*b, "m");
    });
    for (std::size_t i = 0; i + 1 < rows.size(); ++i) {
      if (rows[i]->seconds > kThrottled * rows[i + 1]->seconds) rows[i]->set_aside = "throttled";
    }
  }
}

}  // namespace

std::map<std::string, std::int64_t> set_artefacts_aside(std::vector<Sample>& samples,
                                                        const std::vector<GpuSpec>& known) {
  mark_duplicates(samples);
  mark_copies(samples);
  mark_throttled(samples);
  mark_l2(samples, known);
  std::map<std::string, std::int64_t> counts;
  for (const Sample& sample : samples) {
    if (!sample.set_aside.empty()) ++counts[sample.set_aside];
  }
  return counts;
}

std::vector<std::string> machines_unchecked(const std::vector<Sample>& samples,
                                            const std::vector<GpuSpec>& known) {
  std::set<std::string> machines;
  for (const Sample& sample : samples) {
    if (sample.kernel == "gemm" || sample.kernel == "decode_attention") {
      machines.insert(sample.machine);
    }
  }
  std::erase_if(machines,
                [&](const std::string& name) { return find_gpu(known, name) != nullptr; });
  return {machines.begin(), machines.end()};
}

const char* artefact_rules() {
  return "Rows set aside (kept in the file with the rule's name, used by no fit):\n"
         "  duplicate        a kernel's shape a second time in one source: the first stays\n"
         "  copied           every row of a machine's kernel equals another machine's\n"
         "  l2_resident      decode attention over at most 1.2 x L2; operands faster than DRAM\n"
         "  throttled        a GEMM over 1.5 x the time of the next larger m\n"
         "  broken_upstream  rows that their authors' documentation or arithmetic rules out\n";
}

}  // namespace kvlane::calibrate
