#pragma once
// What the samples of one file share.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "calibrate/import/import.h"

namespace kvlane::calibrate {

class SampleMaker {
 public:
  // `source` and `licence` are the format's own; the options' replace them.
  SampleMaker(std::string source, std::string licence, const ImportOptions& options, Imported& out)
      : out_(out) {
    base_.source = options.source.empty() ? std::move(source) : options.source;
    base_.licence = options.licence.empty() ? std::move(licence) : options.licence;
  }

  Sample& add(const std::string& machine, const std::string& variant, const char* kernel,
              std::vector<std::int64_t> shape, const char* dtype, double seconds) {
    Sample& sample = out_.samples.emplace_back(base_);
    sample.machine = machine;
    sample.variant = variant;
    sample.kernel = kernel;
    sample.shape = std::move(shape);
    sample.dtype = dtype;
    sample.seconds = seconds;
    return sample;
  }
  void skip(const char* reason) { ++out_.skipped[reason]; }

 private:
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
