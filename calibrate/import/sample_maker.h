#pragma once
// What the samples of one file share.

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "calibrate/import/import.h"
#include "sim/base/input_error.h"

namespace kvlane::calibrate {

class SampleMaker {
 public:
  // `source` and `licence` are the format's own; the options' replace them.
  SampleMaker(std::string path, const std::string& source, const std::string& licence,
              const ImportOptions& options, Imported& out)
      : path_(std::move(path)), out_(out) {
    base_.source = options.source.empty() ? source : options.source;
    base_.licence = options.licence.empty() ? licence : options.licence;
  }

  Sample& add(const std::string& machine, const std::string& variant, const char* kernel,
              std::vector<std::int64_t> shape, const char* dtype, double seconds) {
    if (machine.empty()) {
      throw InputError({path_, line_, 1}, "no machine",
                       "expected one in the row or the file's name");
    }
    for (std::size_t i = 0; i < shape.size(); ++i) {
      const bool may_be_none = sample_dimensions(kernel)[i] == "cached_tokens";
      if (shape[i] < (may_be_none ? 0 : 1) || shape[i] > kLargest) {
        throw InputError(
            {path_, line_, 1},
            fmt::format("{} of {}: {}", sample_dimensions(kernel)[i], kernel, shape[i]),
            "expected a whole number from 1 to 1e15");
      }
    }
    if (!(seconds > 0) || !std::isfinite(seconds)) {
      throw InputError({path_, line_, 1}, fmt::format("a time of {} s", seconds),
                       "expected a time above zero");
    }
    Sample& sample = out_.samples.emplace_back(base_);
    sample.machine = machine;
    sample.variant = variant;
    sample.kernel = kernel;
    sample.shape = std::move(shape);
    sample.dtype = dtype;
    sample.seconds = seconds;
    return sample;
  }
  // Causal attention of `chunk` new tokens a sequence after `cached` ones, 0 or more. `heads`:
  // query heads, kv heads and their width.
  void add_prefill(const std::string& machine, const std::string& variant, std::int64_t sequences,
                   std::int64_t chunk, std::int64_t cached,
                   const std::array<std::int64_t, 3>& heads, const char* dtype, double seconds) {
    const auto [q, kv, width] = heads;
    if (cached == 0) {
      add(machine, variant, "prefill_attention", {sequences, chunk, q, kv, width}, dtype, seconds);
    } else {
      add(machine, variant, "prefix_attention", {sequences, chunk, cached, q, kv, width}, dtype,
          seconds);
    }
  }
  // The line that the next samples come from, for errors.
  void row(int line) { line_ = line; }
  void skip(const char* reason) { ++out_.skipped[reason]; }

 private:
  static constexpr std::int64_t kLargest = 1'000'000'000'000'000;  // as in a file of samples

  std::string path_;
  int line_ = 0;
  Sample base_;
  Imported& out_;
};

// The last part of a path.
inline std::string_view file_name(std::string_view path) {
  const auto slash = path.find_last_of('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

// The text between two others in `text`, "" where they are not there.
inline std::string between(std::string_view text, std::string_view before, std::string_view after) {
  const auto first = text.find(before);
  if (first == std::string_view::npos) return "";
  const auto start = first + before.size();
  const auto end = text.find(after, start);
  return end == std::string_view::npos ? "" : std::string(text.substr(start, end - start));
}

}  // namespace kvlane::calibrate
