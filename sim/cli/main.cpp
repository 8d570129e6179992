// kvlane COMMAND ...: finds the presets, gives the words to the command, turns errors into exit
// statuses: 0 done, 1 the run or check failed, 2 bad input or usage.

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <string_view>

#if defined(KVLANE_CUDA)
#include "calibrate/measure/gpu/open_gpu.h"
#endif
#include "calibrate/live/rdma/rdma.h"
#include "calibrate/live/role/options.h"
#include "sim/base/input_error.h"
#include "sim/cli/arguments.h"
#include "sim/cli/commands.h"
#include "sim/cli/unfinished.h"
#include "sim/cli/version.h"

namespace kvlane::cli {
namespace {

struct Command {
  const char* name;
  int (*run)(const Args&, const Context&);
  const char* what;
};

constexpr Command kCommands[] = {
    {"run", run_command, "simulate a scenario: every strategy, as table, JSON, CSV and trace"},
    {"compare", compare_command, "two results side by side"},
    {"sweep", sweep_command, "a grid of runs, resumable, with crossovers"},
    {"paper", paper_command, "the paper's claims beside our numbers, with reasons"},
    {"calibrate", calibrate_command, "measured tables to hardware files, and how wrong they are"},
    {"doctor", doctor_command, "what this machine has for a live run, and how to mend the rest"},
    {"validate", validate_command, "check scenario, study, hardware, model and profile files"},
    {"list", list_command, "what ships: models, hardware, strategies, scenarios"},
    {"show", show_command, "how a model's KV bytes or a GPU's constants come about"},
    {"schema", schema_command, "the JSON Schema that the reader itself is made from"},
};

std::string usage() {
  std::string text =
      "kvlane: what does each way of moving the KV cache from prefill to decode cost?\n\n"
      "usage: kvlane COMMAND [options]      (kvlane COMMAND --help tells more)\n\n";
  for (const Command& command : kCommands) {
    text += fmt::format("  {:<10} {}\n", command.name, command.what);
  }
  text += fmt::format("  {:<10} {}\n  {:<10} {}\n", "test", "everything that CI runs", "bench",
                      "event core and network against ns-3 and SimGrid");
  return text +
         "\nexample: kvlane run scenarios/paper/l20-batch6.yaml\n"
         "exit: 0 done, 1 the run or check failed, 2 bad input or usage\n";
}

// scenarios/ beside the source tree that built this, or three folders above the program.
std::string preset_dir() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) {
    const std::filesystem::path beside =
        program.parent_path().parent_path().parent_path().parent_path() / "scenarios";
    if (std::filesystem::is_directory(beside, error)) return beside.string();
  }
  return KVLANE_SOURCE_PRESETS;
}

Context make_context() {
  Context context;
  context.preset_dir = preset_dir();
  context.version = fmt::format("{} ({})", kVersion, kCommit);
  context.stderr_is_terminal = isatty(STDERR_FILENO) == 1;
  winsize size{};
  if (isatty(STDOUT_FILENO) == 1 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 &&
      size.ws_col >= 60) {
    context.columns = size.ws_col;
  }
#if defined(KVLANE_CUDA)
  context.open_gpu = calibrate::open_gpu;
  context.cuda = live::cuda_access();
#endif
#if defined(KVLANE_RDMA)
  context.rdma = live::rdma_access();
#endif
  return context;
}

// A stream that the caller closed would give its number to the next file opened, and a message
// would land there. Read only, so that writing to it still fails.
void open_closed_streams() {
  for (int stream = 0; stream <= 2; ++stream) {
    if (::fcntl(stream, F_GETFD) == -1 && ::open("/dev/null", O_RDONLY) < 0) return;
  }
}

int fail(std::string_view message, int status) {
  print_error(message);
  return status;
}

int dispatch(const Args& args) {
  if (args.empty()) {
    std::fputs(usage().c_str(), stderr);
    return 2;
  }
  if (args[0] == "--help" || args[0] == "-h" || args[0] == "help") {
    print(usage());
    return 0;
  }
  for (const std::string& word : args) {
    if (word == "--") break;
    if (word != "--version") continue;
    print(fmt::format("kvlane {} ({}), built with {}\n", kVersion, kCommit, kBuiltWith));
    return 0;
  }
  for (const Command& command : kCommands) {
    if (args[0] == command.name) return command.run({args.begin() + 1, args.end()}, make_context());
  }
  throw UsageError(
      fmt::format("no command '{}'; expected one of those that kvlane --help lists", args[0]));
}

}  // namespace
}  // namespace kvlane::cli

int main(int argc, char** argv) {
  using namespace kvlane::cli;
  open_closed_streams();
  remove_unfinished_on_signals();
  try {
    const int status = dispatch({argv + 1, argv + argc});
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      return fail("stdout cannot be written", 1);
    }
    return status;
  } catch (const kvlane::InputError& error) {
    return fail(error.what(), 2);
  } catch (const UsageError& error) {
    return fail(error.what(), 2);
  } catch (const kvlane::live::OptionError& error) {
    return fail(error.what(), 2);
  } catch (const std::logic_error& error) {
    return fail(fmt::format("a bug: {}; please report it with the scenario", error.what()), 1);
  } catch (const std::exception& error) {
    return fail(error.what(), 1);
  }
}
