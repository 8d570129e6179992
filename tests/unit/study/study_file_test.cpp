#include "sim/study/study_file.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

using namespace kvlane;

namespace {

// A folder with a scenario that is only looked up, not read.
class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / "kvlane_study_file_test") {
    std::filesystem::create_directories(path_ / "studies");
    std::ofstream(path_ / "scenario.yaml") << "name: s\n";
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string study(const std::string& text) const {
    const auto path = path_ / "studies" / "s.yaml";
    std::ofstream(path) << text;
    return path.string();
  }

 private:
  std::filesystem::path path_;
};

const std::string kGood =
    "kind: study\n"
    "name: bandwidth\n"
    "scenario: ../scenario.yaml\n"
    "strategies: [full, smartgen]\n"
    "grid:\n"
    "  - key: instances.decode.nic.rate\n"
    "    values: [15 Gbps, 25 Gbps]\n"
    "  - key: workload.tokens\n"
    "    also: [workload.more]\n"
    "    values: [1000, 2000]\n"
    "crossovers:\n"
    "  - {of: smartgen, against: full, metric: ttst_s, over: instances.decode.nic.rate}\n";

std::string error_of(const std::string& text) {
  const Folder folder;
  const std::string path = folder.study(text);
  try {
    InputFiles files({});
    read_study(path, files);
  } catch (const InputError& error) {
    const std::string what = error.what();
    return what.substr(what.rfind("s.yaml:"));
  }
  return "no error";
}

std::string replaced(const std::string& from, const std::string& to) {
  std::string text = kGood;
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

bool starts(const std::string& text, const std::string& with) { return text.rfind(with, 0) == 0; }

}  // namespace

TEST_CASE("study file: read with its defaults") {
  const Folder folder;
  InputFiles files({});
  const Study study = read_study(folder.study(kGood), files);
  CHECK(study.name == "bandwidth");
  CHECK(study.scenario.find("scenario.yaml") != std::string::npos);
  CHECK(grid_size(study) == 4);
  CHECK(study.grid[0].values[1].text == "25 Gbps");
  CHECK(study.grid[1].also[0].text == "workload.more");
  REQUIRE(study.crossovers.size() == 1);
  CHECK(study.crossovers[0].tolerance == 0.01);
  CHECK(study.file.sha256.size() == 64);
}

TEST_CASE("study file: what is wrong, and where") {
  CHECK(error_of(kGood) == "no error");
  CHECK(starts(error_of(replaced("metric: ttst_s", "metric: ttst")), "s.yaml:12:"));
  CHECK(starts(error_of(replaced("over: instances.decode.nic.rate", "over: nic.rate")),
               "s.yaml:12:"));
  CHECK(starts(error_of(replaced("of: smartgen", "of: hack")), "s.yaml:12:"));
  CHECK(starts(error_of(replaced("25 Gbps", "25000 Mbps")), "s.yaml:7:"));
  CHECK(starts(error_of(replaced("[1000, 2000]", "[1000, 1000]")), "s.yaml:10:"));
  CHECK(starts(error_of(replaced("grid:", "gird:")), "s.yaml:5:1: "));
  CHECK(starts(error_of(replaced("../scenario.yaml", "nowhere.yaml")), "s.yaml:3:11: "));
  CHECK(starts(error_of(replaced("workload.tokens", "instances.decode.nic.rate")), "s.yaml:8:"));
  CHECK(starts(error_of(replaced("[1000, 2000]", "[[1000], 2000]")), "s.yaml:10:"));
  CHECK(starts(error_of(replaced("[full, smartgen]", "[full, smartgen, full]")), "s.yaml:4:"));
  CHECK(starts(error_of(replaced("of: smartgen", "of: full")), "s.yaml:12:"));
  CHECK(starts(error_of(replaced("[15 Gbps, 25 Gbps]", "[15 Gbps, 25 Gbps, 20 Gbps]")),
               "s.yaml:7:32: `20 Gbps` out of order"));
  CHECK(error_of(replaced("[15 Gbps, 25 Gbps]", "[25 Gbps, 20 Gbps, 15 Gbps]")) == "no error");
  CHECK(starts(error_of(replaced("[15 Gbps, 25 Gbps]", "[fast, slow]")),
               "s.yaml:7:14: `fast` on an axis that is asked for a crossover; expected "));
}
