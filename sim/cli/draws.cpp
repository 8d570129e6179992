#include "sim/cli/draws.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <thread>

#include "sim/base/input_error.h"
#include "sim/cli/parallel.h"
#include "sim/cli/shared_progress.h"

namespace kvlane::cli {
namespace {

constexpr std::int64_t kMostJobs = 1024;

std::int64_t parse_count(const std::string& option, const std::string& text, std::int64_t low,
                         std::int64_t high) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < low || value > high) {
    throw UsageError(fmt::format("{} '{}'; expected a whole number from {} to {}", option,
                                 shortened(text), low, high));
  }
  return value;
}

}  // namespace

std::int64_t parse_draws(const std::string& command, const std::string& text) {
  return parse_count(command + ": --uncertainty", text, kFewestDraws, kMostDraws);
}

int parse_jobs(const std::string& command, const std::string& text) {
  return static_cast<int>(parse_count(command + ": -j", text, 1, kMostJobs));
}

int all_cores() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

std::vector<DrawMeans> run_draws(const Scenario& scenario, const RunOptions& options,
                                 std::int64_t draws, int jobs, const Context& context) {
  Pool<DrawRuns> runs([&] { return std::make_unique<DrawRuns>(scenario, options); });
  std::vector<DrawMeans> means(static_cast<std::size_t>(draws));
  SharedProgress progress("draws", context);
  std::atomic<std::size_t> done = 0;
  parallel_for(means.size(), jobs, [&](std::size_t d) {
    means[d] = runs.with([&](DrawRuns& run) { return means_of(run.run(d)); });
    progress(++done, means.size());
  });
  return means;
}

}  // namespace kvlane::cli
