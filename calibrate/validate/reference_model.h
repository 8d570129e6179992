#pragma once
// The presets behind the names that published measurements give their models.

#include <map>
#include <optional>
#include <string>

#include "sim/kv/model_spec.h"
#include "sim/scenario/input_files.h"

namespace kvlane::calibrate {

class ReferenceModels {
 public:
  explicit ReferenceModels(InputFiles& files) : files_(files) {}
  // Null for a model that no preset stands for.
  const ModelSpec* find(const std::string& name);

 private:
  InputFiles& files_;
  std::map<std::string, std::optional<ModelSpec>> models_;  // by published name
};

}  // namespace kvlane::calibrate
