#pragma once
// A GPU from YAML (scenarios/hardware/<gpu>.yaml): every number with its unit, its class of source
// and a text that says where it comes from. Keys are the members of GpuSpec; all are required.

#include <string>
#include <string_view>
#include <vector>

#include "sim/gpu/gpu_spec.h"
#include "sim/scenario/schema.h"

namespace kvlane {

struct AllReduceRow {
  int ranks = 2;
  double latency = 0;  // seconds
  double rate = 0;     // bytes/s of the message
  std::vector<std::pair<std::string, SourceNote>> notes;
};

struct KernelFitRow {
  KernelClass kernel = KernelClass::gemm;
  double error = 0;
  SourceNote note;  // of the error
  std::vector<DomainRange> domain;
};

struct KernelCostRow {
  std::string kernel;
  KernelCost cost;
  std::vector<std::pair<std::string, SourceNote>> notes;
};

struct GpuFile {
  GpuSpec spec;
  std::vector<KernelCostRow> costs;
  std::vector<AllReduceRow> all_reduce;
  std::vector<KernelFitRow> kernels;
};

const Mapping<GpuFile>& gpu_mapping();

// Checks what one key alone cannot say (every rank count once). Throws InputError.
GpuSpec gpu_from_yaml(const YamlNode& root);
GpuSpec read_gpu(std::string_view text, const std::string& name);

// `kvlane show hardware`: every parameter with unit and source. The JSON is one object a parameter
// in `rows`: key, value (base units), unit, source, from.
std::string show_gpu_text(const GpuSpec& gpu);
std::string show_gpu_json(const GpuSpec& gpu);

}  // namespace kvlane
