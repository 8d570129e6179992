#include "calibrate/import/folder.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string_view>

#include "calibrate/import/artefacts.h"
#include "sim/base/check.h"
#include "sim/base/input_error.h"

namespace kvlane::calibrate {
namespace {

namespace fs = std::filesystem;

struct Rule {
  const char* folder;
  const char* starts;  // of the file's name
  const char* format;
};

constexpr Rule kRules[] = {
    {"aiconfigurator", "gemm_", "aiconfigurator"},
    {"aiconfigurator", "attn_", "aiconfigurator"},
    {"aiconfigurator", "nccl", "aiconfigurator"},
    {"aiconfigurator", "custom_allreduce", "aiconfigurator"},
    {"aiconfigurator", "silicon_", "aiconfigurator"},
    {"vidur", "mlp_", "vidur"},
    {"vidur", "net_", "vidur"},
    {"vidur", "attention_", "vidur"},
    {"llmservingsim", "kernel_attention_", "llmservingsim"},
    {"llmservingsim", "kernel_dense_", "llmservingsim"},
    {"llmservingsim", "kernel_per_sequence_", "llmservingsim"},
    {"llmservingsim", "v0_", "llmservingsim"},
    {"frontier", "attention_", "frontier"},
    {"llmcompass", "", "llmcompass"},
    {"splitwise", "perf_model", "splitwise"},
    {"e2e_tables", "trtllm_", "tensorrt-llm"},
    {"e2e_tables", "l20_", "l20"},
    // Its table of first tokens has rows of 8 fields under 9 names.
    {"argonne", "llm_inference_bench", "llm-inference-bench"},
    {"rdma", "perftest_curves", "perftest-curves"},
    {"rdma", "mooncake_", "mooncake"},
    {"pcie", "", "pcie"},
};

std::string read_file(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  if (!stream) throw InputError({path.string(), 0, 0}, "cannot be read", "expected a table");
  return text;
}

std::vector<fs::path> files_of(const fs::path& folder, std::string_view starts) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_regular_file() && name.starts_with(starts) && name.ends_with(".csv")) {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

FolderImport import_folder(const fs::path& folder, const std::vector<GpuSpec>& known) {
  FolderImport result;
  Imported imported;
  for (const Rule& rule : kRules) {
    const fs::path part = folder / rule.folder;
    if (!fs::is_directory(part)) {
      if (result.missing.empty() || result.missing.back() != rule.folder) {
        result.missing.emplace_back(rule.folder);
      }
      continue;
    }
    const ImportFormat* format = find_format(rule.format);
    KVLANE_CHECK(format != nullptr, "format {}", rule.format);
    for (const fs::path& file : files_of(part, rule.starts)) {
      format->read(file.string(), read_file(file), {}, imported);
    }
  }
  result.samples = std::move(imported.samples);
  result.skipped = std::move(imported.skipped);
  result.set_aside = set_artefacts_aside(result.samples, known);
  return result;
}

}  // namespace kvlane::calibrate
