#pragma once
// A progress bar that any thread may move.

#include <algorithm>
#include <memory>
#include <mutex>

#include "sim/cli/commands.h"
#include "sim/cli/progress.h"

namespace kvlane::cli {

class SharedProgress {
 public:
  SharedProgress(const char* what, const Context& context) : what_(what), context_(context) {}
  void operator()(std::size_t done, std::size_t total) {
    const std::lock_guard lock(mutex_);
    if (!bar_) {
      bar_ = std::make_unique<Progress>(what_, static_cast<std::int64_t>(total),
                                        context_.stderr_is_terminal, context_.columns);
    }
    most_ = std::max(most_, done);  // threads report out of order
    bar_->set(static_cast<std::int64_t>(most_));
  }

 private:
  const char* what_;
  const Context& context_;
  std::mutex mutex_;
  std::size_t most_ = 0;
  std::unique_ptr<Progress> bar_;
};

}  // namespace kvlane::cli
