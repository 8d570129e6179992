#pragma once
// Output files appear whole or not at all: written beside their place, then renamed. A file that is
// there already is not replaced without --force; what is not a plain file never is.

#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kvlane::cli {

enum class Replace { refuse, allow };

// Throws InputError when `path` exists and may not be replaced, is no plain file (or a link to
// one), or its folder is missing. Asked before a long run, so that the answer does not come after
// it.
void check_can_write(const std::string& path, Replace replace);
// Throws InputError where an output is an input or two outputs are one file, by whatever name.
void check_outputs_differ(const std::vector<std::string>& outputs,
                          const std::vector<std::string>& inputs);

// A file that grows piece by piece and takes its name at commit(); without it, nothing stays. A
// link is followed: its target is replaced.
class OutputFile {
 public:
  OutputFile(std::string path, Replace replace);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view text);
  // Ends the writing. Throws std::runtime_error when the disk did not take it all.
  void close();
  void commit();

 private:
  std::string path_;
  std::string temporary_;
  int slot_ = -1;  // among what a signal removes
  std::ofstream stream_;
};

// All of them, or (when one cannot be written to the end) none.
void commit_all(const std::vector<std::unique_ptr<OutputFile>>& files);

void write_whole_file(const std::string& path, std::string_view text, Replace replace);

// The folder of --out, made with those above it; what it made goes again unless keep() is called.
// InputError when it cannot be.
class OutputFolder {
 public:
  explicit OutputFolder(const std::string& path);
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;
  void keep();

 private:
  struct Made {
    std::string path;
    int slot;
  };
  std::vector<Made> made_;  // outermost first
};

}  // namespace kvlane::cli
