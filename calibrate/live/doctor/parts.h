#pragma once
// The parts of a diagnosis, each adding its rows.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/live/doctor/checks.h"
#include "calibrate/live/doctor/machine_files.h"

namespace kvlane::live::doctor {

class Report {
 public:
  explicit Report(const Options& asked) : options(asked), files(asked.root, asked.search) {}

  void ok(std::string check, std::string found) {
    rows.push_back({std::move(check), std::move(found), Verdict::ok, "", {}});
  }
  void skipped(std::string check, std::string found) {
    rows.push_back({std::move(check), std::move(found), Verdict::skipped, "", {}});
  }
  void bad(std::string check, std::string found, std::string mend, std::vector<Path> stands = {}) {
    rows.push_back(
        {std::move(check), std::move(found), Verdict::bad, std::move(mend), std::move(stands)});
  }
  void missing(std::string check, std::string found, std::string mend,
               std::vector<Path> stands = {}) {
    rows.push_back(
        {std::move(check), std::move(found), Verdict::missing, std::move(mend), std::move(stands)});
  }

  const Options& options;
  const MachineFiles files;
  std::vector<Row> rows;
};

void check_processors(Report& report);  // and the kernel, the clock
void check_memory(Report& report);      // memlock, huge pages, descriptors, shared memory
void check_network(Report& report);     // TCP, interfaces, namespaces
void check_rdma(Report& report);
void check_gpus(Report& report);
void check_tools(Report& report);

// (major, minor) of the kernel's release; none where it does not tell.
std::optional<std::pair<std::int64_t, std::int64_t>> kernel_version(const MachineFiles& files);
// Folders of this process's control group and those above it, of `controller` or ("") of cgroup 2.
std::vector<std::string> control_groups(const MachineFiles& files, const std::string& controller);
// Whether the kernel grants the capability of this number, in its first user namespace.
bool has_capability(const MachineFiles& files, unsigned number);
// Interfaces with hardware behind them or that are up, but the loopback.
std::vector<std::string> interfaces(const MachineFiles& files);
bool interface_up(const MachineFiles& files, const std::string& name);
bool has_rdma_device(const MachineFiles& files);
bool has_gpu(const MachineFiles& files);
bool module_loaded(const MachineFiles& files, const std::string& name);

}  // namespace kvlane::live::doctor
