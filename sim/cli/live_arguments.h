#pragma once
// The words of a live run, the same for `run`, `compare --sim-vs-live` and `calibrate link`.

#include <string>
#include <vector>

#include "calibrate/live/role/options.h"
#include "sim/cli/arguments.h"

namespace kvlane::cli {

struct LiveArguments {
  // Adds the options.
  void add(boost::program_options::options_description& options);
  // True when a word of a live run was given.
  static std::string first(const Arguments& arguments);
  // UsageError for words that make no sense.
  live::LiveOptions options(const std::string& command, const Arguments& arguments,
                            const Context& context) const;
  // The same words again, for a role that this process starts.
  std::vector<std::string> words(const Arguments& arguments) const;

  std::string transport = "auto", compute = "auto";
  std::string secret_file, timeout = "10 s", lease = "5 s", connect = "30 s", threads = "1",
                           processors, rdma_device, gid_index = "-1";
};

// What roles say, a line each on stderr; words of a peer cannot make it two.
live::Say say_on_stderr();

}  // namespace kvlane::cli
