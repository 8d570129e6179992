#include "sim/cli/output_file.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
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
  OutputFolder(folder.file("deep/er")).keep();
  check_can_write(folder.file("deep/er/a.csv"), Replace::refuse);
  write_whole_file(folder.file("plain"), "", Replace::refuse);
  CHECK_THROWS_AS(OutputFolder(folder.file("plain/sub")), InputError);
  CHECK_THROWS_AS(OutputFolder(folder.file("plain")), InputError);
  CHECK(content(folder.file("plain")).empty());
}

TEST_CASE("OutputFile: never in place of a pipe, a lost link or a link to a folder") {
  const TemporaryFolder folder("output_file");
  REQUIRE(::mkfifo(folder.file("pipe").c_str(), 0600) == 0);
  std::filesystem::create_symlink("nowhere", folder.file("lost"));
  std::filesystem::create_symlink("pipe", folder.file("to_pipe"));
  std::filesystem::create_symlink(".", folder.file("to_folder"));
  for (const char* name : {"pipe", "lost", "to_pipe", "to_folder"}) {
    CAPTURE(name);
    CHECK_THROWS_AS(check_can_write(folder.file(name), Replace::allow), InputError);
    CHECK_THROWS_AS(OutputFile(folder.file(name), Replace::allow), InputError);
  }
  CHECK(folder.count() == 4);
}

TEST_CASE("OutputFile: through a link to a file, the file is replaced and the link stays") {
  const TemporaryFolder folder("output_file");
  write_whole_file(folder.file("target"), "old", Replace::refuse);
  std::filesystem::create_symlink("target", folder.file("link"));
  CHECK_THROWS_AS(write_whole_file(folder.file("link"), "new", Replace::refuse), InputError);
  write_whole_file(folder.file("link"), "new", Replace::allow);
  CHECK(content(folder.file("target")) == "new");
  CHECK(std::filesystem::is_symlink(folder.file("link")));
}

TEST_CASE("outputs: no two are one file, and none is an input, by any name") {
  const TemporaryFolder folder("output_file");
  write_whole_file(folder.file("in"), "", Replace::refuse);
  std::filesystem::create_symlink("in", folder.file("link"));
  const std::string a = folder.file("a");
  check_outputs_differ({a, folder.file("b")}, {folder.file("in")});
  CHECK_THROWS_AS(check_outputs_differ({a, a}, {}), InputError);
  CHECK_THROWS_AS(check_outputs_differ({a, folder.file("./x/../a")}, {}), InputError);
  CHECK_THROWS_AS(check_outputs_differ({folder.file("in")}, {folder.file("in")}), InputError);
  CHECK_THROWS_AS(check_outputs_differ({folder.file("link")}, {folder.file("in")}), InputError);
}

TEST_CASE("commit_all: all files or none") {
  const TemporaryFolder folder("output_file");
  const auto write = [&](bool full) {
    std::vector<std::unique_ptr<OutputFile>> files;
    files.push_back(std::make_unique<OutputFile>(folder.file("a"), Replace::refuse));
    files.push_back(std::make_unique<OutputFile>(folder.file("b"), Replace::refuse));
    for (const auto& file : files) file->write("text");
    if (!full) return commit_all(files);
    // A limit on the size of files stands for a full disk.
    struct rlimit old {};
    ::getrlimit(RLIMIT_FSIZE, &old);
    const struct rlimit small { 8, old.rlim_max };
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    files.back()->write("and more than the disk takes");
    ::setrlimit(RLIMIT_FSIZE, &small);
    try {
      commit_all(files);
    } catch (...) {
      ::setrlimit(RLIMIT_FSIZE, &old);
      std::signal(SIGXFSZ, handler);
      throw;
    }
    ::setrlimit(RLIMIT_FSIZE, &old);
    std::signal(SIGXFSZ, handler);
  };
  CHECK_THROWS_AS(write(true), std::runtime_error);
  CHECK(folder.count() == 0);
  write(false);
  CHECK(folder.count() == 2);
}

TEST_CASE("OutputFolder: what it made goes again, unless it is kept or used") {
  const TemporaryFolder folder("output_file");
  { const OutputFolder made(folder.file("deep/er")); }
  CHECK(folder.count() == 0);
  {
    const OutputFolder made(folder.file("deep/er/"));
    write_whole_file(folder.file("deep/other"), "", Replace::refuse);
  }
  CHECK(std::filesystem::exists(folder.file("deep/other")));
  CHECK(!std::filesystem::exists(folder.file("deep/er")));
  { const OutputFolder made(folder.file("deep")); }
  CHECK(std::filesystem::exists(folder.file("deep")));
}
