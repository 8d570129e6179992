#include "sim/cli/shipped_gpus.h"

#include "sim/scenario/catalog.h"
#include "sim/scenario/gpu_file.h"

namespace kvlane::cli {

std::vector<GpuSpec> shipped_gpus(const std::string& preset_dir) {
  const InputFiles files({preset_dir});
  std::vector<GpuSpec> gpus;
  for (const std::string& path : files.list("hardware")) {
    const YamlNode root = parse_yaml(files.peek(path, {path, 0, 0}), path);
    if (kind_of(root) == "gpu") gpus.push_back(gpu_from_yaml(root));
  }
  return gpus;
}

}  // namespace kvlane::cli
