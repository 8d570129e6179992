#include "sim/cli/progress.h"

#include <doctest/doctest.h>

using namespace kvlane::cli;
using namespace std::chrono_literals;

namespace {

struct Screen {
  std::chrono::steady_clock::time_point now{};
  std::string text;
  Progress bar(bool is_terminal, int columns = 60) {
    return Progress(
        "runs", 10, is_terminal, columns, [this] { return now; },
        [this](std::string_view piece) { text += piece; });
  }
};

}  // namespace

TEST_CASE("Progress: nothing where stderr is no terminal, however long it takes") {
  Screen screen;
  {
    Progress bar = screen.bar(false);
    screen.now += 100s;
    bar.advance();
  }
  CHECK(screen.text.empty());
}

TEST_CASE("Progress: nothing in the first second") {
  Screen screen;
  {
    Progress bar = screen.bar(true);
    screen.now += 999ms;
    bar.set(10);
  }
  CHECK(screen.text.empty());
}

TEST_CASE("Progress: counts, a bar of its share, the time left; wiped at the end") {
  Screen screen;
  {
    Progress bar = screen.bar(true);
    screen.now += 4s;
    bar.set(4);
    // 60 columns - "runs" - " 4/10 " - " 6 s left" - 4 = 37 wide; 0.4 of it is 14.
    CHECK(screen.text ==
          "\rruns 4/10 [" + std::string(14, '#') + std::string(23, '.') + "] 6 s left\x1b[K");
    screen.text.clear();
    screen.now += 50ms;
    bar.advance();  // not more than ten times a second
    CHECK(screen.text.empty());
  }
  CHECK(screen.text == "\r\x1b[K");
}
