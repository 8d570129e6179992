#include "sim/scenario/sample_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/scenario/json_places.h"
#include "sim/scenario/json_text.h"

namespace kvlane {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kLargest = 1'000'000'000'000'000;  // of a dimension: a petabyte

// One line of a file, with the places of its keys.
class Line {
 public:
  Line(std::string_view text, const std::string& file, int number) : file_(file), number_(number) {
    try {
      json_ = parse_json(text);
    } catch (const JsonFault& fault) {
      // Within a line a byte is a column.
      const auto column = static_cast<int>(std::clamp<std::size_t>(fault.byte, 1, 1'000'000'000));
      if (fault.kind == JsonFault::Kind::zero_byte) {
        fail(column, "a zero byte", "expected a sample as JSON");
      }
      fail(column, "not a JSON object", "expected a sample");
    }
    if (!json_.is_object()) fail(1, "not a JSON object", "expected a sample");
    try {
      places_ = json_places(text, file);
    } catch (const InputError& error) {
      fail(error.place().column, error.found(), error.expected());
    }
  }

  const Json& object() const { return json_; }

  [[noreturn]] void fail(int column, std::string_view found, std::string_view expected) const {
    throw InputError({file_, number_, column}, found, expected);
  }
  [[noreturn]] void fail_at(const std::string& path, std::string_view found,
                            std::string_view expected) const {
    const auto at = places_.find(path);
    fail(at == places_.end() ? 1 : at->second.column, found, expected);
  }

  std::string text(const std::string& key, bool required) const {
    const auto at = json_.find(key);
    if (at == json_.end()) {
      if (required) fail(1, fmt::format("no `{}`", key), "expected it in every sample");
      return "";
    }
    if (!at->is_string()) fail_at(key, fmt::format("`{}` is no text", key), "expected a string");
    return at->get<std::string>();
  }

  double seconds(const std::string& key, bool required) const {
    const auto at = json_.find(key);
    if (at == json_.end()) {
      if (required) fail(1, fmt::format("no `{}`", key), "expected it in every sample");
      return 0;
    }
    if (!at->is_number()) fail_at(key, fmt::format("`{}` is no number", key), "expected a time");
    const auto value = at->get<double>();
    if (!std::isfinite(value) || value <= 0) {
      fail_at(key, fmt::format("{} s", value), "expected a time above zero");
    }
    return value;
  }

  double load() const {
    const char* const key = "load_average_1min";
    const auto at = json_.find(key);
    if (at == json_.end()) return 0;
    const double value = at->is_number() ? at->get<double>() : -1;
    if (!std::isfinite(value) || value < 0) {
      fail_at(key, fmt::format("`{}`: {}", key, shortened(at->dump())), "expected 0 or more");
    }
    return value;
  }

  std::int64_t count(const std::string& key) const {
    const auto at = json_.find(key);
    if (at == json_.end()) return 0;
    const bool fits = at->is_number_unsigned() &&
                      at->get<std::uint64_t>() <= static_cast<std::uint64_t>(kLargest);
    if (!fits) {
      fail_at(key, fmt::format("`{}`: {}", key, shortened(at->dump())),
              "expected a whole number from 0 to 1e15");
    }
    return at->get<std::int64_t>();
  }

  std::vector<std::int64_t> shape(const std::string& kernel) const {
    const auto at = json_.find("shape");
    if (at == json_.end()) fail(1, "no `shape`", "expected it in every sample");
    if (!at->is_object()) fail_at("shape", "`shape` is no object", "expected the dimensions");
    const std::vector<std::string>& names = sample_dimensions(kernel);
    for (const auto& [key, value] : at->items()) {
      if (std::find(names.begin(), names.end(), key) == names.end()) {
        fail_at("shape." + key, fmt::format("dimension `{}` of {}", key, kernel),
                fmt::format("expected {}", fmt::join(names, ", ")));
      }
    }
    std::vector<std::int64_t> sizes;
    for (const std::string& name : names) {
      const auto found = at->find(name);
      if (found == at->end()) {
        fail_at("shape", fmt::format("no `{}` in the shape of {}", name, kernel),
                fmt::format("expected {}", fmt::join(names, ", ")));
      }
      const std::int64_t least = name == "cached_tokens" ? 0 : 1;
      const bool fits = found->is_number_unsigned() &&
                        found->get<std::uint64_t>() <= static_cast<std::uint64_t>(kLargest);
      if (!fits || found->get<std::int64_t>() < least) {
        fail_at("shape." + name, fmt::format("`{}`: {}", name, shortened(found->dump())),
                fmt::format("expected a whole number from {} to 1e15", least));
      }
      sizes.push_back(found->get<std::int64_t>());
    }
    return sizes;
  }

  void check_keys() const {
    constexpr const char* kKeys[] = {
        "machine",      "source",      "licence",           "variant", "kernel",
        "shape",        "dtype",       "seconds",           "model",   "set_aside",
        "seconds_p25",  "seconds_p75", "repetitions",       "commit",  "driver",
        "clock_state",  "problem",     "load_average_1min", "threads", "multiprocessors",
        "memory_bytes", "cache_bytes"};
    for (const auto& [key, value] : json_.items()) {
      if (std::find(std::begin(kKeys), std::end(kKeys), key) == std::end(kKeys)) {
        fail_at(key, fmt::format("unknown key `{}`", key),
                fmt::format("expected {}", fmt::join(kKeys, ", ")));
      }
    }
  }

 private:
  std::string file_;
  int number_;
  Json json_;
  JsonPlaces places_;
};

Sample read_line(std::string_view text, const std::string& file, int number) {
  const Line line(text, file, number);
  line.check_keys();
  Sample sample;
  sample.machine = line.text("machine", true);
  sample.source = line.text("source", true);
  sample.licence = line.text("licence", true);
  sample.variant = line.text("variant", true);
  sample.kernel = line.text("kernel", true);
  if (sample_dimensions(sample.kernel).empty()) {
    line.fail_at("kernel", fmt::format("unknown kernel `{}`", sample.kernel),
                 fmt::format("expected one of {}", fmt::join(sample_kernels(), ", ")));
  }
  sample.shape = line.shape(sample.kernel);
  sample.dtype = line.text("dtype", true);
  sample.seconds = line.seconds("seconds", true);
  sample.model = line.text("model", false);
  sample.set_aside = line.text("set_aside", false);
  Conditions& how = sample.conditions;
  how.seconds_p25 = line.seconds("seconds_p25", false);
  how.seconds_p75 = line.seconds("seconds_p75", false);
  how.repetitions = line.count("repetitions");
  how.commit = line.text("commit", false);
  how.driver = line.text("driver", false);
  how.clock_state = line.text("clock_state", false);
  how.problem = line.text("problem", false);
  how.load_average_1min = line.load();
  how.threads = line.count("threads");
  how.multiprocessors = line.count("multiprocessors");
  how.memory_bytes = line.count("memory_bytes");
  how.cache_bytes = line.count("cache_bytes");
  return sample;
}

}  // namespace

std::vector<Sample> parse_samples(std::string_view text, const std::string& name) {
  std::vector<Sample> samples;
  int number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.find_first_not_of(" \t") == std::string_view::npos) continue;
    samples.push_back(read_line(line, name, number));
  }
  return samples;
}

}  // namespace kvlane
