#include "sim/cli/output_file.h"

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>

#include "sim/base/input_error.h"
#include "tests/unit/cli/temporary_folder.h"

using namespace kvlane;
using namespace kvlane::cli;
using test::TemporaryFolder;

namespace {

std::string content(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace

TEST_CASE("OutputFile: takes its name at commit, and only then") {
  const TemporaryFolder folder("output_file");
  const std::string path = folder.file("a.csv");
  {
    OutputFile file(path, Replace::refuse);
    file.write("one,");
    file.write("two\n");
    CHECK(!std::ifstream(path));
    file.commit();
  }
  CHECK(content(path) == "one,two\n");
  CHECK(folder.count() == 1);
}

TEST_CASE("OutputFile: without commit nothing stays, and the old file is as it was") {
  const TemporaryFolder folder("output_file");
  const std::string path = folder.file("a.csv");
  write_whole_file(path, "old", Replace::refuse);
  {
    OutputFile file(path, Replace::allow);
    file.write("new");
  }
  CHECK(content(path) == "old");
  CHECK(folder.count() == 1);
}

TEST_CASE("OutputFile: replaces with --force only") {
  const TemporaryFolder folder("output_file");
  const std::string path = folder.file("a.csv");
  write_whole_file(path, "old", Replace::refuse);
  CHECK_THROWS_AS(write_whole_file(path, "new", Replace::refuse), InputError);
  CHECK(content(path) == "old");
  write_whole_file(path, "new", Replace::allow);
  CHECK(content(path) == "new");
}

TEST_CASE("OutputFile: a folder that is not there, or in place of the file, is bad input") {
  const TemporaryFolder folder("output_file");
  CHECK_THROWS_AS(check_can_write(folder.file("no/a.csv"), Replace::refuse), InputError);
  CHECK_THROWS_AS(check_can_write(folder.path(), Replace::allow), InputError);
  make_output_folder(folder.file("deep/er"));
  check_can_write(folder.file("deep/er/a.csv"), Replace::refuse);
  write_whole_file(folder.file("plain"), "", Replace::refuse);
  CHECK_THROWS_AS(make_output_folder(folder.file("plain/sub")), InputError);
}
