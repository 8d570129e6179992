#pragma once
// A role as a process of this host, started by another: its `listening ADDR`, what else it says on
// stderr, its end. It dies with its parent.

#include <sys/types.h>

#include <string>
#include <vector>

#include "calibrate/live/socket/address.h"
#include "sim/base/units.h"

namespace kvlane::live {

class ChildRole {
 public:
  // `words`: program and arguments. `enter`: path of a network namespace to run in, may be empty.
  // `secret`: for its environment, where words would show. Throws std::system_error.
  explicit ChildRole(const std::vector<std::string>& words, const std::string& enter = "",
                     const std::string& secret = "");
  // Ends it: waits a moment, then SIGTERM, then SIGKILL.
  ~ChildRole();
  ChildRole(const ChildRole&) = delete;
  ChildRole& operator=(const ChildRole&) = delete;

  // The address after `listening`; RunError with what it said when it ended instead.
  std::string wait_until_listening(Duration limit);
  // Exit status, 128 + signal; -1 when it still runs after `limit`.
  int wait(Duration limit);
  pid_t pid() const { return pid_; }
  // Lines other than `listening`, so far.
  const std::string& said() const { return said_; }

 private:
  bool read_more(int wait_ms);

  pid_t pid_ = -1;
  int stderr_ = -1;
  int status_ = -1;
  std::string buffer_, said_, address_;
};

}  // namespace kvlane::live
