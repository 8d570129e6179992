// Files on disk: the broken ones each give their one error, the shipped ones none.

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "sim/scenario/catalog.h"
#include "sim/scenario/scenario_file.h"
#include "sim/scenario/sha256.h"
#include "sim/study/study_file.h"
#include "tests/unit/scenario/support.h"

using namespace kvlane;
namespace fs = std::filesystem;

namespace {

const std::vector<std::string> kPresets{"scenarios"};

std::vector<std::string> files_below(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file() && entry.path().extension() != ".md")
      paths.push_back(entry.path().generic_string());
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

TEST_CASE("broken files: one exact error each") {
  const std::vector<std::string> paths = files_below("tests/unit/broken");
  CHECK(paths.size() >= 10);
  for (const std::string& path : paths) {
    // The first line is "# expect LINE:COLUMN: found; expected".
    std::ifstream stream(path);
    std::string expected;
    std::getline(stream, expected);
    const std::string head = "# expect ";
    REQUIRE_MESSAGE(expected.rfind(head, 0) == 0, path);
    CHECK(test::error_of([&] { read_scenario(path, {}, kPresets); }) ==
          path + ":" + expected.substr(head.size()));
  }
}

TEST_CASE("every shipped file is valid") {
  const StudyCheck check_study = [](const std::string& path, InputFiles& files) {
    read_study(path, files);
  };
  std::size_t scenarios = 0;
  for (const std::string& path : files_below("scenarios")) {
    std::string kind;
    CHECK_MESSAGE(
        test::error_of([&] { kind = validate_file(path, kPresets, check_study); }) == "no error",
        path);
    scenarios += kind == "scenario";
  }
  CHECK(scenarios >= 7);
}

TEST_CASE("catalogue: names that a scenario can use") {
  for (const CatalogEntry& entry : list_hardware(kPresets)) {
    CHECK_MESSAGE(!entry.description.empty(), entry.name);
    CHECK_MESSAGE(entry.description.find('\n') == std::string::npos, entry.name);
  }
  CHECK(list_models(kPresets).size() >= 14);
  bool found = false;
  for (const CatalogEntry& entry : list_scenarios(kPresets)) {
    CHECK_MESSAGE(!entry.description.empty(), entry.path);
    found = found || entry.name == "paper/l20-batch6";
  }
  CHECK(found);
  CHECK_FALSE(list_profiles(kPresets).empty());
  CHECK_FALSE(list_workloads(kPresets).empty());
}

TEST_CASE("schemas are JSON with a description at every key") {
  for (const auto& [kind, table] : list_schemas()) {
    const nlohmann::json schema = nlohmann::json::parse(json_schema_text(*table, kind));
    const auto check = [](const nlohmann::json& object) {
      for (const auto& entry : object["properties"].items())
        CHECK_MESSAGE(entry.value().contains("description"), entry.key());
    };
    check(schema);
    if (schema.contains("$defs"))
      for (const auto& [name, definition] : schema["$defs"].items()) check(definition);
  }
}

TEST_CASE("inputs: every file read, once, with its hash") {
  const Scenario scenario = read_scenario("scenarios/paper/l20-batch6.yaml", {}, kPresets);
  REQUIRE_FALSE(scenario.inputs.empty());
  CHECK(scenario.inputs[0].path == "scenarios/paper/l20-batch6.yaml");
  std::ifstream stream(scenario.inputs[0].path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  CHECK(scenario.inputs[0].sha256 == sha256_hex(bytes));
  std::vector<std::string> paths;
  for (const InputFile& input : scenario.inputs) paths.push_back(input.path);
  CHECK(paths == std::vector<std::string>{
                     "scenarios/paper/l20-batch6.yaml", "scenarios/models/llama-3.1-8b.yaml",
                     "scenarios/hardware/alibaba-gn8is-instances.yaml",
                     "scenarios/hardware/l20.yaml", "scenarios/hardware/erdma.yaml",
                     "scenarios/profiles/smollm2.yaml"});
}

TEST_CASE("SHA-256: test vectors of FIPS 180-4 and NIST") {
  CHECK(sha256_hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(sha256_hex(std::string(1'000'000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  // Lengths around the end of a block: 55 fits with its padding, 56 needs another block.
  CHECK(sha256_hex(std::string(55, 'a')) ==
        "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
  CHECK(sha256_hex(std::string(56, 'a')) ==
        "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a");
}

TEST_CASE(
    "inputs: a preset is recorded from scenarios/ on, wherever it lies; other files as typed") {
  const std::string presets = fs::absolute("scenarios").generic_string();
  const fs::path copy = fs::temp_directory_path() / "kvlane_inputs_test.yaml";
  fs::copy_file("scenarios/smoke/loopback.yaml", copy, fs::copy_options::overwrite_existing);
  const Scenario scenario = read_scenario(copy.string(), {}, {presets});
  fs::remove(copy);
  REQUIRE(scenario.inputs.size() > 3);
  CHECK(scenario.inputs[0].path == copy.string());
  for (std::size_t i = 1; i < scenario.inputs.size(); ++i) {
    CHECK(scenario.inputs[i].path.rfind("scenarios/", 0) == 0);
    CHECK(scenario.inputs[i].opened == fs::absolute(scenario.inputs[i].path).generic_string());
  }
}
