// NVIDIA GPUs, the driver, and the NIC's way into their memory; other programs.

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "calibrate/live/doctor/parts.h"

namespace kvlane::live::doctor {
namespace {

constexpr const char* kVersion = "/proc/driver/nvidia/version";
constexpr const char* kGpus = "/proc/driver/nvidia/gpus";

bool nvidia_on_bus(const MachineFiles& files) {
  const std::vector<std::string> devices = files.names("/sys/bus/pci/devices");
  return std::any_of(devices.begin(), devices.end(), [&](const std::string& device) {
    const std::string folder = "/sys/bus/pci/devices/" + device;
    // Display controllers only: the same vendor makes NICs, bridges and sound.
    return files.line(folder + "/vendor") == "0x10de" &&
           files.line(folder + "/class").rfind("0x03", 0) == 0;
  });
}

// "2 x NVIDIA L20".
std::string models(const MachineFiles& files) {
  std::map<std::string, int> counts;
  for (const std::string& gpu : files.names(kGpus)) {
    const std::string model = files.value(fmt::format("{}/{}/information", kGpus, gpu), "Model");
    ++counts[model.empty() ? "model not told" : model];
  }
  std::string text;
  for (const auto& [model, count] : counts) {
    text += fmt::format("{}{} x {}", text.empty() ? "" : ", ", count, model);
  }
  return text;
}

// "535.54.03" of "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue ...".
std::string driver_version(const std::string& line) {
  for (const std::string& word : words(line)) {
    const bool number = std::all_of(word.begin(), word.end(),
                                    [](char c) { return c == '.' || (c >= '0' && c <= '9'); });
    if (number && word.find('.') != std::string::npos) return word;
  }
  return "version not told";
}

void check_build(Report& report) {
  if (report.options.built_with_cuda) return report.ok("CUDA in this build", "yes");
  report.missing("CUDA in this build", "no", "cmake -DKVLANE_CUDA=ON ...   (toolkit 12.2 or newer)",
                 {Path::cuda});
}

void check_driver(Report& report) {
  const MachineFiles& files = report.files;
  if (!has_gpu(files)) {
    if (nvidia_on_bus(files)) {
      return report.missing("GPU", "an NVIDIA GPU on the bus, no driver",
                            "apt-get install nvidia-driver && reboot", {Path::cuda});
    }
    return report.missing("GPU", "no NVIDIA GPU; --compute cpu and modeled need none", "",
                          {Path::cuda});
  }
  const std::string found = models(files) + ", driver " + driver_version(files.line(kVersion));
  if (!files.exists("/dev/nvidiactl")) {
    return report.bad("GPU", found + ", no /dev/nvidiactl",
                      "nvidia-modprobe -c 0   (a container: docker run --gpus all)", {Path::cuda});
  }
  if (!files.library("libcuda.so.1")) {
    return report.bad("GPU", found + ", no libcuda.so.1", "apt-get install libcuda1", {Path::cuda});
  }
  report.ok("GPU", found);
}

// Without either rows go through host memory.
void check_direct(Report& report) {
  const char* const check = "NIC to GPU memory";
  const MachineFiles& files = report.files;
  if (!has_gpu(files)) return report.skipped(check, "no GPU");
  if (!has_rdma_device(files)) return report.skipped(check, "no RDMA device");
  if (module_loaded(files, "nvidia_peermem")) return report.ok(check, "nvidia_peermem");
  const bool open = files.line(kVersion).find("Open Kernel Module") != std::string::npos;
  const auto kernel = kernel_version(files);
  if (open && kernel && *kernel >= std::pair<std::int64_t, std::int64_t>(5, 12)) {
    return report.ok(check, "dma-buf");
  }
  report.missing(check, "neither nvidia_peermem nor dma-buf: rows are copied through host memory",
                 "modprobe nvidia_peermem");
}

}  // namespace

bool has_gpu(const MachineFiles& files) { return !files.names(kGpus).empty(); }

void check_gpus(Report& report) {
  check_build(report);
  check_driver(report);
  check_direct(report);
}

void check_tools(Report& report) {
  const auto tool = [&](const char* check, const char* program, const char* why,
                        const char* package) {
    if (report.files.program(program)) return report.ok(check, program);
    report.missing(check, fmt::format("no {}: {}", program, why),
                   fmt::format("apt-get install {}", package));
  };
  if (has_rdma_device(report.files)) {
    tool("perftest", "ib_write_bw", "nothing to compare the link with", "perftest");
  } else {
    report.skipped("perftest", "no RDMA device");
  }
  tool("guest for verbs", "qemu-system-x86_64", "verbs are not tested without RDMA hardware",
       "qemu-system-x86");
}

}  // namespace kvlane::live::doctor
