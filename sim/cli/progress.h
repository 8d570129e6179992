#pragma once
// A progress bar on stderr: only where stderr is a terminal, and only once a second has passed, so
// that neither a pipe nor a short run ever sees it.

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace kvlane::cli {

class Progress {
 public:
  using Clock = std::function<std::chrono::steady_clock::time_point()>;
  using Writer = std::function<void(std::string_view)>;

  // `what` stands before the bar; `total` steps make it full.
  Progress(std::string what, std::int64_t total, bool is_terminal, int columns);
  // For tests: another clock and another place than stderr.
  Progress(std::string what, std::int64_t total, bool is_terminal, int columns, Clock clock,
           Writer writer);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void advance(std::int64_t steps = 1) { set(done_ + steps); }
  void set(std::int64_t done);
  // Wipes the bar; the destructor does so too.
  void finish();

 private:
  std::string line() const;

  std::string what_;
  std::int64_t total_;
  std::int64_t done_ = 0;
  bool is_terminal_;
  int columns_;
  Clock clock_;
  Writer writer_;
  std::chrono::steady_clock::time_point started_, drawn_;
  bool visible_ = false;
};

}  // namespace kvlane::cli
