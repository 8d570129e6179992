#pragma once
// The subcommands. Each gets its own words (argv after the subcommand), writes its answer to stdout
// and everything else to stderr, and returns the exit status; bad input is thrown as InputError and
// bad usage as UsageError, both caught in main (status 2).

#include <stdexcept>
#include <string>
#include <vector>

#include "calibrate/live/compute/cuda_access.h"
#include "calibrate/live/rdma/rdma.h"
#include "calibrate/measure/device.h"

namespace kvlane::cli {

struct Context {
  std::string preset_dir;  // .../scenarios
  std::string version;     // "0.1.0 (commit)"
  bool stderr_is_terminal = false;
  int columns = 100;            // of the terminal
  calibrate::OpenGpu open_gpu;  // of `calibrate --device cuda:N`; empty in a build without CUDA
  live::CudaAccess cuda;        // of live runs; empty in a build without CUDA
  live::RdmaAccess rdma;        // empty in a build without verbs
};

// Wrong command-line words; what() is one line.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

using Args = std::vector<std::string>;

int run_command(const Args& args, const Context& context);
int validate_command(const Args& args, const Context& context);
int list_command(const Args& args, const Context& context);
int show_command(const Args& args, const Context& context);
int schema_command(const Args& args, const Context& context);
int compare_command(const Args& args, const Context& context);
int sweep_command(const Args& args, const Context& context);
int paper_command(const Args& args, const Context& context);
int calibrate_command(const Args& args, const Context& context);
int doctor_command(const Args& args, const Context& context);

}  // namespace kvlane::cli
