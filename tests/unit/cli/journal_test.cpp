#include "sim/cli/journal.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "sim/base/input_error.h"
#include "sim/cli/parallel.h"
#include "tests/unit/cli/temporary_folder.h"

using namespace kvlane;
using namespace kvlane::cli;
using test::TemporaryFolder;

TEST_CASE("Journal: what was appended is there again, text for text") {
  const TemporaryFolder folder("journal");
  const JournalKey a = journal_key("a");
  const std::string text = "1,\"two\nlines\",\\\n";
  {
    Journal journal(folder.path(), "journal.jsonl", "study 1");
    CHECK(!journal.has(a));
    journal.append(a, text);
    journal.append(journal_key("b"), "");
    CHECK(journal.text(a) == text);
  }
  const Journal journal(folder.path(), "journal.jsonl", "study 1");
  CHECK(journal.size() == 2);
  CHECK(journal.text(a) == text);
  CHECK(journal.text(journal_key("b")).empty());
  CHECK_THROWS_AS(journal.text(journal_key("c")), std::logic_error);
}

TEST_CASE("Journal: cut off anywhere, it loses the last line at most and goes on") {
  const TemporaryFolder folder("journal");
  const std::string path = folder.file("journal.jsonl");
  {
    Journal journal(folder.path(), "journal.jsonl", "study");
    journal.append(journal_key("a"), "first\n");
    journal.append(journal_key("b"), "second\n");
  }
  const auto whole = std::filesystem::file_size(path);
  const std::string line_b = "\"second\\n\"\n";
  for (std::uintmax_t cut = 1; cut < 50 + line_b.size(); ++cut) {
    std::filesystem::resize_file(path, whole - cut);
    Journal journal(folder.path(), "journal.jsonl", "study");
    CHECK(journal.has(journal_key("a")));
    CHECK(!journal.has(journal_key("b")));
    journal.append(journal_key("b"), "second\n");
    CHECK(journal.text(journal_key("b")) == "second\n");
    CHECK(std::filesystem::file_size(path) == whole);
  }
}

TEST_CASE("Journal: a damaged line is as if it were not there") {
  const TemporaryFolder folder("journal");
  const std::string path = folder.file("journal.jsonl");
  {
    Journal journal(folder.path(), "journal.jsonl", "study");
    journal.append(journal_key("a"), "first\n");
    journal.append(journal_key("b"), "second\n");
  }
  {
    std::fstream file(path, std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(kJournalHead.size()) + 6 + 50 +
               2);  // behind "study\n", key and checksum: in the text of a
    file.put('X');
  }
  const Journal journal(folder.path(), "journal.jsonl", "study");
  CHECK(!journal.has(journal_key("a")));
  CHECK(journal.text(journal_key("b")) == "second\n");
}

TEST_CASE(
    "Journal: reads the shards' files beside its own; one writer a file; one study a folder") {
  const TemporaryFolder folder("journal");
  Journal first(folder.path(), "journal-1-of-2.jsonl", "study");
  first.append(journal_key("a"), "from 1");
  Journal second(folder.path(), "journal-2-of-2.jsonl", "study");
  second.append(journal_key("b"), "from 2");
  const Journal all(folder.path(), "journal.jsonl", "study");
  CHECK(all.text(journal_key("a")) == "from 1");
  CHECK(all.text(journal_key("b")) == "from 2");
  CHECK_THROWS_AS(Journal(folder.path(), "journal.jsonl", "study"), InputError);
  CHECK_THROWS_AS(Journal(folder.path(), "journal-3-of-3.jsonl", "another"), InputError);
}

TEST_CASE("Journal: only what starts as one is a journal, and nothing else is touched") {
  const TemporaryFolder folder("journal");
  { Journal own(folder.path(), "journal.jsonl", "study"); }
  REQUIRE(::mkfifo(folder.file("journal-pipe.jsonl").c_str(), 0600) == 0);
  std::ofstream(folder.file("journal-notes.jsonl")) << "my notes";
  std::ofstream(folder.file("journal-1-of-2.jsonl")) << "kvlane.jour";  // killed at once
  CHECK(journals_in(folder.path()) == std::vector<std::string>{folder.file("journal-1-of-2.jsonl"),
                                                               folder.file("journal.jsonl")});
  Journal(folder.path(), "journal.jsonl", "study");
  CHECK_THROWS_AS(Journal(folder.path(), "journal-notes.jsonl", "study"), InputError);
  CHECK_THROWS_AS(Journal(folder.path(), "journal-pipe.jsonl", "study"), InputError);
  std::ifstream in(folder.file("journal-notes.jsonl"));
  std::string notes;
  std::getline(in, notes);
  CHECK(notes == "my notes");
}

TEST_CASE("Journal: many threads append, every text is whole") {
  const TemporaryFolder folder("journal");
  const auto text = [](std::size_t i) {
    return std::string(i % 97, 'x') + std::to_string(i) + "\n";
  };
  {
    Journal journal(folder.path(), "journal.jsonl", "study");
    parallel_for(500, 4, [&](std::size_t i) {
      journal.append(journal_key(std::to_string(i)), text(i));
      CHECK(journal.text(journal_key(std::to_string(i))) == text(i));
    });
  }
  const Journal journal(folder.path(), "journal.jsonl", "study");
  REQUIRE(journal.size() == 500);
  for (std::size_t i = 0; i < 500; ++i)
    CHECK(journal.text(journal_key(std::to_string(i))) == text(i));
}

TEST_CASE("parallel_for: each index once, on any number of threads") {
  for (const int jobs : {1, 2, 7, 100}) {
    std::vector<std::atomic<int>> seen(50);
    parallel_for(50, jobs, [&](std::size_t i) { ++seen[i]; });
    for (const auto& count : seen) CHECK(count == 1);
  }
  parallel_for(0, 4, [](std::size_t) { FAIL("nothing to do"); });
}

TEST_CASE("parallel_for: rethrows an exception, and stops handing out work") {
  std::atomic<int> started = 0;
  const auto body = [&](std::size_t i) {
    ++started;
    if (i == 3) throw std::runtime_error("three");
  };
  CHECK_THROWS_WITH(parallel_for(1'000'000, 2, body), "three");
  CHECK(started < 1'000'000);
}
