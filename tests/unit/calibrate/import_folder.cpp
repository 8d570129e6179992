// A folder that holds a folder a data set.

#include <doctest/doctest.h>

#include <algorithm>

#include "calibrate/import/folder.h"

using namespace kvlane;
using namespace kvlane::calibrate;

TEST_CASE("every known table of the fixtures, and what is missing") {
  const FolderImport all = import_folder("tests/fixtures/import", {});
  CHECK(all.missing.empty());
  std::map<std::string, std::int64_t> of_source;
  for (const Sample& sample : all.samples) ++of_source[sample.source];
  // Rows that the tests of the formats expect, file by file.
  const std::map<std::string, std::int64_t> expected = {
      {"aiconfigurator 095f58a", 2 + 1 + 1 + 2 + 4 + 1 + 2},
      {"vidur 7d47513", 8 + 1 + 1 + 3},
      {"LLMServingSim 5daddb2", 5 + 7 + 2 + 7 + 2},
      {"Frontier a4b22df", 3 + 2},
      {"LLMCompass 2e015fd", 4},
      {"splitwise-sim 8f99e7d", 6},
      {"TensorRT-LLM 138f96d", 3},
      {"L20 spot values", 3},
      {"LLM-Inference-Bench 4211f5d", 1},
      {"perftest curves", 2},
      {"Mooncake 3b5a594", 2},
      {"host-device copies", 2}};
  CHECK(of_source == expected);
  CHECK(all.set_aside == std::map<std::string, std::int64_t>{{"broken_upstream", 2}});
}

TEST_CASE("no data set is no samples") {
  const FolderImport none = import_folder("tests/fixtures", {});
  CHECK(none.samples.empty());
  CHECK(none.missing == std::vector<std::string>{"aiconfigurator", "vidur", "llmservingsim",
                                                 "frontier", "llmcompass", "splitwise",
                                                 "e2e_tables", "argonne", "rdma", "pcie"});
}
