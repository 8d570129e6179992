#pragma once
// Files of the machine, below a root folder. Contents are bounded and made printable: what a
// driver or a container put there is not trusted.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvlane::live::doctor {

class MachineFiles {
 public:
  MachineFiles(std::string root, const std::string& search);

  // Empty where there is none or it cannot be read. `path` begins with '/'.
  std::string text(const std::string& path) const;
  std::string line(const std::string& path) const;  // the first, without blanks around it
  // Of a line that is a whole number and nothing else.
  std::optional<std::int64_t> number(const std::string& path) const;
  // The value after "key:" or "key =" in a file of such lines.
  std::string value(const std::string& path, std::string_view key) const;
  bool exists(const std::string& path) const;
  // Names in a folder, in order, at most 256.
  std::vector<std::string> names(const std::string& folder) const;
  // In one of the search folders, executable.
  bool program(const std::string& name) const;
  // A shared library, in the folders of the distributions.
  bool library(const std::string& name) const;

 private:
  std::string root_;
  std::vector<std::string> search_;
};

std::string trimmed(std::string_view text);
std::vector<std::string> words(std::string_view text);
// All of it a whole number; none otherwise or beyond 64 bits.
std::optional<std::int64_t> whole_number(std::string_view text);

}  // namespace kvlane::live::doctor
