#pragma once
// What `kvlane doctor` looks at, and what it says about it. Everything comes from files below a
// root folder (/proc, /sys, /dev, programs and libraries), so that a machine can be made up.

#include <cstdint>
#include <string>
#include <vector>

namespace kvlane::live::doctor {

enum class Verdict : std::uint8_t { ok, missing, bad, skipped };
const char* to_string(Verdict verdict);

// What a live run can go over or compute with.
enum class Path : std::uint8_t { tcp, shm, rdma, cuda };
inline constexpr Path kPaths[] = {Path::tcp, Path::shm, Path::rdma, Path::cuda};
const char* to_string(Path path);

struct Row {
  std::string check;
  std::string found;
  Verdict verdict = Verdict::ok;
  std::string mend;          // a command, where it is not ok and there is one
  std::vector<Path> stands;  // paths that cannot be taken while this is missing or bad
};

struct Options {
  std::string root;    // "" or, for tests, a folder with proc/, sys/, ...
  std::string search;  // folders of programs, as in $PATH
  // Of the memory that a role registers; what memlock must allow.
  std::int64_t pool_bytes = std::int64_t{1} << 30;
  bool built_with_rdma = false, built_with_cuda = false;
};

struct Diagnosis {
  std::vector<Row> rows;
  // The first row that stands in the way; null: the path can be taken here.
  const Row* obstacle(Path path) const;
};

// Never throws for what it reads: what is not understood is a row that says so.
Diagnosis diagnose(const Options& options);

// "128 GiB", "1.5 GiB", "512 KiB".
std::string size_text(std::int64_t bytes);

}  // namespace kvlane::live::doctor
