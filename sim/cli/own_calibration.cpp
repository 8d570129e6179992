#include "sim/cli/own_calibration.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "calibrate/live/role/child.h"
#include "sim/cli/live_run.h"
#include "sim/run/strategy_run.h"

namespace kvlane::cli {

std::string own_calibration(const live::LiveOptions& options, bool anew, const Context&,
                            const live::Say& say) {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  std::filesystem::path folder = cache != nullptr && *cache != '\0' ? std::filesystem::path(cache)
                                 : home != nullptr && *home != '\0'
                                     ? std::filesystem::path(home) / ".cache"
                                     : std::filesystem::path();
  if (!folder.is_absolute()) {
    throw RunError(fmt::format(
        "nowhere to keep the calibration of this machine: '{}'; expected HOME or XDG_CACHE_HOME, "
        "an absolute path, or --hardware FILE",
        folder.string()));
  }
  folder /= "kvlane";
  const std::string device = options.compute == live::ComputeKind::cuda ? "cuda:0" : "cpu";
  std::string file = (folder / fmt::format("{}-{}threads.yaml", device == "cpu" ? "cpu" : "cuda0",
                                           options.threads))
                         .string();
  if (std::filesystem::exists(file) && !anew) {
    say("calibration of this machine: " + file + " (--recalibrate makes a new one)");
    return file;
  }
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    throw RunError(fmt::format("{}: {}; the calibration of this machine belongs there",
                               folder.string(), error.message()));
  }
  say("calibrating this machine, which takes minutes: " + file);
  std::vector<std::string> words = {own_program(), "calibrate", "all", "--device",
                                    device,        "-o",        file,  "--force"};
  if (device == "cpu") words.insert(words.end(), {"--threads", fmt::format("{}", options.threads)});
  live::ChildRole measuring(words);
  const int status = measuring.wait(std::chrono::hours(1));
  if (status != 0) {
    throw RunError(
        fmt::format("calibrating this machine ended with status {}: {}", status, measuring.said()));
  }
  return file;
}

}  // namespace kvlane::cli
