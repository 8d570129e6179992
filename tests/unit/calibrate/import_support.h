#pragma once
// Reads a text or a fixture of tests/fixtures/import, and compares samples with those worked out by
// hand.

#include <doctest/doctest.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "calibrate/import/import.h"
#include "sim/base/input_error.h"

namespace kvlane::test {

inline calibrate::Imported import_text(const std::string& format, const std::string& path,
                                       const std::string& text,
                                       const calibrate::ImportOptions& options = {}) {
  const calibrate::ImportFormat* found = calibrate::find_format(format);
  REQUIRE(found != nullptr);
  calibrate::Imported imported;
  found->read(path, text, options, imported);
  return imported;
}

inline calibrate::Imported import_fixture(const std::string& format, const std::string& file,
                                          const calibrate::ImportOptions& options = {}) {
  const std::string path = "tests/fixtures/import/" + file;
  std::ifstream stream(path, std::ios::binary);
  REQUIRE(stream);
  const std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  return import_text(format, path, text, options);
}

struct Expected {
  std::string machine, variant, kernel;
  std::vector<std::int64_t> shape;
  std::string dtype;
  double seconds;
  std::string model = {}, set_aside = {};
};

inline void check_samples(const calibrate::Imported& imported, const std::string& source,
                          const std::string& licence, const std::vector<Expected>& expected) {
  REQUIRE(imported.samples.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const Sample& sample = imported.samples[i];
    CAPTURE(i);
    CHECK(sample.source == source);
    CHECK(sample.licence == licence);
    CHECK(sample.machine == expected[i].machine);
    CHECK(sample.variant == expected[i].variant);
    CHECK(sample.kernel == expected[i].kernel);
    CHECK(sample.shape == expected[i].shape);
    CHECK(sample.dtype == expected[i].dtype);
    CHECK(sample.seconds == doctest::Approx(expected[i].seconds).epsilon(1e-12));
    CHECK(sample.model == expected[i].model);
    CHECK(sample.set_aside == expected[i].set_aside);
  }
}

using Skipped = std::map<std::string, std::int64_t>;

// The message of the InputError of an import, or "no error".
inline std::string import_error(const std::string& format, const std::string& path,
                                const std::string& text) {
  try {
    import_text(format, path, text, {"NIC", "source", "licence"});
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace kvlane::test
