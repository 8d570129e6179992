#include "calibrate/measure/gpu/gpu_machine.h"

#include <array>
#include <cstdio>
#include <memory>

namespace kvlane::calibrate {
namespace {

// The first line that a command prints; empty where it cannot be run.
std::string first_line_of(const std::string& command) {
  struct Close {
    void operator()(std::FILE* pipe) const { ::pclose(pipe); }
  };
  const std::unique_ptr<std::FILE, Close> pipe(::popen((command + " 2>/dev/null").c_str(), "r"));
  std::array<char, 512> line{};
  if (pipe == nullptr || std::fgets(line.data(), line.size(), pipe.get()) == nullptr) return "";
  std::string text = line.data();
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text;
}

// The PCI address tells which one it is also where CUDA_VISIBLE_DEVICES renumbers them.
SmiAnswer ask_smi(const kernels::cuda::DeviceInfo& info) {
  if (info.pci_bus_id.find_first_not_of("0123456789abcdefABCDEF:.") != std::string::npos ||
      info.pci_bus_id.empty())
    return {};
  return smi_answer(
      first_line_of("nvidia-smi --id=" + info.pci_bus_id +
                    " --query-gpu=driver_version,clocks.max.sm,clocks.max.mem,power.limit"
                    " --format=csv,noheader"));
}

}  // namespace

SmiAnswer smi_answer(const std::string& line) {
  std::array<std::string, 4> fields;
  std::size_t begin = 0;
  for (std::string& field : fields) {
    const std::size_t end = line.find(", ", begin);
    field = line.substr(begin, end == std::string::npos ? end : end - begin);
    if (field.find("N/A") != std::string::npos || field.find("Not") != std::string::npos)
      field.clear();
    if (end == std::string::npos) break;
    begin = end + 2;
  }
  SmiAnswer answer;
  // "NVIDIA-SMI has failed because ..." is no version.
  if (fields[0].empty() || fields[0].find_first_not_of("0123456789.") != std::string::npos)
    return answer;
  answer.driver = "NVIDIA " + fields[0];
  const auto add = [&](const std::string& text) {
    answer.clock_state += (answer.clock_state.empty() ? "" : ", ") + text;
  };
  if (!fields[1].empty()) add("SM at most " + fields[1]);
  if (!fields[2].empty()) add("memory at most " + fields[2]);
  if (!fields[3].empty()) add(fields[3] + " at most");
  return answer;
}

std::string cuda_version(int version) {
  return std::to_string(version / 1000) + '.' + std::to_string(version % 1000 / 10);
}

Machine gpu_machine(const kernels::cuda::DeviceInfo& info, int threads) {
  const SmiAnswer smi = ask_smi(info);
  Machine machine;
  machine.name = plain_name(info.name);
  machine.driver =
      (smi.driver.empty() ? "" : smi.driver + ", ") + "CUDA " + cuda_version(info.driver_version);
  machine.clock_state = smi.clock_state;
  if (machine.clock_state.empty() && info.clock_khz > 0)
    machine.clock_state = "SM at most " + std::to_string(info.clock_khz / 1000) + " MHz";
  if (machine.clock_state.empty()) machine.clock_state = "unknown";
  machine.threads = threads;
  machine.multiprocessors = info.multiprocessors;
  machine.memory_bytes = static_cast<std::int64_t>(info.memory_bytes);
  machine.cache_bytes = static_cast<std::int64_t>(info.l2_bytes);
  return machine;
}

}  // namespace kvlane::calibrate
