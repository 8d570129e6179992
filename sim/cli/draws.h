#pragma once
// --uncertainty on several threads, and its numbers on the command line.

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "sim/cli/commands.h"
#include "sim/run/uncertainty.h"

namespace kvlane::cli {

// Of --uncertainty and -j; UsageError. `command` for the message.
std::int64_t parse_draws(const std::string& command, const std::string& text);
int parse_jobs(const std::string& command, const std::string& text);
int all_cores();

// Objects that one thread uses at a time, made when all others are in use.
template <class T>
class Pool {
 public:
  explicit Pool(std::function<std::unique_ptr<T>()> make) : make_(std::move(make)) {}

  template <class Use>
  auto with(Use use) {
    std::unique_ptr<T> mine = take();
    auto result = use(*mine);
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(mine));
    return result;
  }

 private:
  std::unique_ptr<T> take() {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        std::unique_ptr<T> last = std::move(free_.back());
        free_.pop_back();
        return last;
      }
    }
    return make_();
  }

  std::function<std::unique_ptr<T>()> make_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<T>> free_;
};

// Draws 0 ... draws - 1, the same whatever `jobs` is.
std::vector<DrawMeans> run_draws(const Scenario& scenario, const RunOptions& options,
                                 std::int64_t draws, int jobs, const Context& context);

}  // namespace kvlane::cli
