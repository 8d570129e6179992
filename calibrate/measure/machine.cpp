#include "calibrate/measure/machine.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

namespace kvlane::calibrate {
namespace {

namespace fs = std::filesystem;

std::string file_text(const std::string& path) {
  std::ifstream stream(path);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

std::string trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\n");
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(" \t\n") + 1 - first));
}

std::string first_line(const std::string& path) {
  const std::string text = file_text(path);
  return trimmed(std::string_view(text).substr(0, text.find('\n')));
}

// The value after "key :" in a file of such lines.
std::string value_of(const std::string& text, std::string_view key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(':');
    if (colon != std::string::npos && trimmed(line.substr(0, colon)) == key) {
      return trimmed(std::string_view(line).substr(colon + 1));
    }
  }
  return "";
}

// "32768K", "480M", "16318512 kB".
std::int64_t size_of(const std::string& text) {
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  const std::string unit =
      trimmed(std::string_view(read.ptr, static_cast<std::size_t>(end - read.ptr)));
  if (unit == "K" || unit == "kB") return number << 10;
  if (unit == "M") return number << 20;
  if (unit == "G") return number << 30;
  return number;
}

// The largest cache that holds data, of the highest level.
std::int64_t last_cache(const std::string& root) {
  std::int64_t size = 0, highest = 0;
  for (int index = 0; index < 16; ++index) {
    const std::string folder =
        root + "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + '/';
    std::error_code error;
    if (!fs::exists(folder, error)) break;
    const std::int64_t level = size_of(first_line(folder + "level"));
    if (first_line(folder + "type") == "Instruction" || level < highest) continue;
    size = std::max(level > highest ? 0 : size, size_of(first_line(folder + "size")));
    highest = level;
  }
  return size;
}

std::string clocks(const std::string& root) {
  const std::string folder = root + "/sys/devices/system/cpu/cpu0/cpufreq/";
  const std::string governor = first_line(folder + "scaling_governor");
  if (governor.empty()) {
    // A virtual machine hides the governor; its clock is what /proc tells.
    const std::string mhz = value_of(file_text(root + "/proc/cpuinfo"), "cpu MHz");
    return mhz.empty() ? "unknown" : "governor unknown, " + mhz + " MHz";
  }
  const std::int64_t khz = size_of(first_line(folder + "scaling_max_freq"));
  return "governor " + governor + ", at most " + std::to_string(khz / 1000) + " MHz";
}

}  // namespace

std::string plain_name(const std::string& model_name) {
  std::string text = model_name.substr(0, model_name.find('@'));
  for (const std::string_view mark : {"(R)", "(TM)", "(r)", "(tm)"}) {
    for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark)) {
      text.replace(at, mark.size(), " ");
    }
  }
  std::string name;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (word == "CPU") continue;
    for (char& c : word) {
      const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                         (c >= 'A' && c <= 'Z') || c == '.' || c == '-';
      if (!plain) c = '-';
    }
    name += (name.empty() ? "" : "-") + word;
  }
  return name.empty() ? "CPU" : name;
}

Machine read_machine(std::int64_t threads, const std::string& root) {
  Machine machine;
  const std::string processor = value_of(file_text(root + "/proc/cpuinfo"), "model name");
  machine.threads = threads;
  machine.name = plain_name(processor) + "-x" + std::to_string(threads);
  machine.driver = "Linux " + first_line(root + "/proc/sys/kernel/osrelease");
  machine.clock_state = clocks(root);
  machine.memory_bytes = size_of(value_of(file_text(root + "/proc/meminfo"), "MemTotal"));
  machine.cache_bytes = last_cache(root);
  return machine;
}

double seconds_in_line(const std::string& root) {
  double sum = 0;
  std::error_code error;
  // Of each thread: nanoseconds on a processor, nanoseconds in line, slices.
  for (const auto& thread : fs::directory_iterator(root + "/proc/self/task", error)) {
    std::ifstream stream(thread.path() / "schedstat");
    double running = 0, waiting = 0;
    if (stream >> running >> waiting) sum += waiting * 1e-9;
  }
  return sum;
}

std::optional<double> load_average(const std::string& root) {
  std::istringstream text(file_text(root + "/proc/loadavg"));
  double minute = 0;
  if (!(text >> minute)) return std::nullopt;
  return minute;
}

}  // namespace kvlane::calibrate
