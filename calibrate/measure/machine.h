#pragma once
// Which machine measures, and in what state: what every sample carries.

#include <cstdint>
#include <optional>
#include <string>

namespace kvlane::calibrate {

struct Machine {
  std::string name;          // of the hardware file: processor and threads, or the GPU's
  std::string driver;        // Linux release; of a GPU, its driver
  std::string clock_state;   // governor and highest frequency; "unknown" where nothing tells
  std::int64_t threads = 1;  // of the host, where it is a GPU
  std::int64_t memory_bytes = 0;
  std::int64_t cache_bytes = 0;      // the last level's; 0: unknown
  std::int64_t multiprocessors = 0;  // of a GPU; 0: a CPU
};

// The processors of this machine, of which this process may use `threads`. `root`: "" or, for
// tests, a folder with proc/ and sys/.
Machine read_machine(std::int64_t threads, const std::string& root = "");

// Mean number of runnable processes over the last minute; none where the system does not tell.
std::optional<double> load_average(const std::string& root = "");

// Seconds that the threads of this process have stood in line for a processor, all together; 0
// where the system does not tell.
double seconds_in_line(const std::string& root = "");

// "Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz" -> "Intel-Xeon-Gold-6338".
std::string plain_name(const std::string& model_name);

}  // namespace kvlane::calibrate
