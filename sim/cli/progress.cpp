#include "sim/cli/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace kvlane::cli {
namespace {

constexpr auto kQuiet = std::chrono::seconds(1);  // shorter runs show nothing
constexpr auto kBetweenDraws = std::chrono::milliseconds(100);

}  // namespace

Progress::Progress(std::string what, std::int64_t total, bool is_terminal, int columns)
    : Progress(
          std::move(what), total, is_terminal, columns,
          [] { return std::chrono::steady_clock::now(); },
          [](std::string_view text) {
            std::fwrite(text.data(), 1, text.size(), stderr);
            std::fflush(stderr);
          }) {}

Progress::Progress(std::string what, std::int64_t total, bool is_terminal, int columns, Clock clock,
                   Writer writer)
    : what_(std::move(what)),
      total_(std::max<std::int64_t>(total, 1)),
      is_terminal_(is_terminal),
      columns_(columns),
      clock_(std::move(clock)),
      writer_(std::move(writer)),
      started_(clock_()),
      drawn_(started_) {}

Progress::~Progress() { finish(); }

void Progress::set(std::int64_t done) {
  done_ = std::min(done, total_);
  if (!is_terminal_) return;
  const auto now = clock_();
  if (now - started_ < kQuiet || (visible_ && now - drawn_ < kBetweenDraws)) return;
  drawn_ = now;
  visible_ = true;
  writer_("\r" + line());
}

void Progress::finish() {
  if (!visible_) return;
  visible_ = false;
  writer_("\r\x1b[K");  // back to the start of the line, and clear it
}

std::string Progress::line() const {
  const double share = static_cast<double>(done_) / static_cast<double>(total_);
  const double elapsed = std::chrono::duration<double>(clock_() - started_).count();
  const std::string counts = fmt::format(" {}/{} ", done_, total_);
  const std::string left =
      done_ > 0 ? fmt::format(" {:.0f} s left", elapsed * (1 - share) / share) : std::string();
  const int room = columns_ - static_cast<int>(what_.size() + counts.size() + left.size()) - 4;
  const auto width = static_cast<std::size_t>(std::clamp(room, 5, 40));
  const auto full = static_cast<std::size_t>(share * static_cast<double>(width));
  return fmt::format("{}{}[{}{}]{}\x1b[K", what_, counts, std::string(full, '#'),
                     std::string(width - full, '.'), left);
}

}  // namespace kvlane::cli
