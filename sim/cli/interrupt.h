#pragma once
// Ctrl-C as a question instead of an end: while one of these lives, SIGINT and SIGTERM only set a
// flag, so that a long measurement can keep what it has. The second signal ends the program.

#include <csignal>

namespace kvlane::cli {

class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // True once a signal has come.
  static bool came();
  // 128 + the signal's number: the exit status; 0 while none has come.
  static int status();

 private:
  struct sigaction old_int_ {};
  struct sigaction old_term_ {};
};

}  // namespace kvlane::cli
