#pragma once
// Output files appear whole or not at all: written beside their place, then renamed. A file that is
// there already is not replaced without --force.

#include <fstream>
#include <string>
#include <string_view>

namespace kvlane::cli {

enum class Replace { refuse, allow };

// Throws InputError when `path` exists and may not be replaced, or its folder is missing. Asked
// before a long run, so that the answer does not come after it.
void check_can_write(const std::string& path, Replace replace);

// A file that grows piece by piece and takes its name at commit(); without it, nothing stays.
class OutputFile {
 public:
  OutputFile(std::string path, Replace replace);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view text);
  // Throws std::runtime_error when the disk did not take it all.
  void commit();

 private:
  std::string path_;
  std::string temporary_;
  std::ofstream stream_;
};

void write_whole_file(const std::string& path, std::string_view text, Replace replace);

// The folder of --out, made with those above it. InputError when it cannot be.
void make_output_folder(const std::string& path);

}  // namespace kvlane::cli
