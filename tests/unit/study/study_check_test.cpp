// A study against the scenario that it sweeps: errors stand in the study.

#include "sim/study/study_check.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "sim/study/study_file.h"

using namespace kvlane;

namespace {

// Values and keys of the two axes, in lines 5 to 9 of the study.
std::string error_of(const std::string& key, const std::string& values,
                     const std::string& second = "workload.output_tokens",
                     const std::string& set = "workload.output_tokens=8") {
  const auto folder =
      std::filesystem::temp_directory_path() / ("kvlane_study_check_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file("scenarios/smoke/loopback.yaml", folder / "scenario.yaml",
                             std::filesystem::copy_options::overwrite_existing);
  const std::string path = (folder / "s.yaml").string();
  std::ofstream(path) << "kind: study\nname: s\nscenario: scenario.yaml\ngrid:\n  - key: " << key
                      << "\n    values: " << values << "\n  - key: " << second
                      << "\n    values: [4, 5]\n";
  std::string error = "no error";
  try {
    InputFiles files({"scenarios"});
    check_study(read_study(path, files), {set}, {"scenarios"});
  } catch (const InputError& e) {
    error = e.what();
    const auto at = error.rfind("s.yaml:");
    if (at != std::string::npos) error = error.substr(at);
  }
  std::filesystem::remove_all(folder);
  return error;
}

bool starts(const std::string& text, const std::string& with) {
  CAPTURE(text);
  return text.rfind(with, 0) == 0;
}

}  // namespace

TEST_CASE("study check: every key and every value is read") {
  const std::string rate = "instances.decode.nic.rate";
  CHECK(error_of(rate, "[10 Gbps, 20 Gbps]") == "no error");
  // A value that is wrong is found, also when it is not the first; a wrong key stands at the key.
  CHECK(starts(error_of(rate, "[many, 20 Gbps]"), "s.yaml:6:14: with `" + rate + "=many`: "));
  CHECK(starts(error_of(rate, "[10 Gbps, many]"), "s.yaml:6:23: with `" + rate + "=many`: "));
  CHECK(starts(error_of("instances.decode.nic.speed", "[10 Gbps]"), "s.yaml:5:10: "));
  CHECK(starts(error_of("instances.nobody.nic.rate", "[10 Gbps]"), "s.yaml:5:10: "));
  CHECK(starts(error_of("workload.prompts.0.tokens", "[100, 100000000000]"), "s.yaml:6:19: "));
}

TEST_CASE("study check: one key by two spellings, and keys that no run depends on") {
  CHECK(starts(error_of("workload.output_tokens", "[6, 7]"), "s.yaml:7:10: "));
  CHECK(starts(error_of("instances.decode.count", "[1, 2]", "instances.1.count"),
               "s.yaml:7:10: `instances.1.count` is the key `instances.decode.count` again"));
  CHECK(starts(error_of("outputs.format", "[json, csv]"), "s.yaml:5:10: an axis `outputs.format`"));
}
