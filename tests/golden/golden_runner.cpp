// Compares what the program prints with a golden file:
//
//   # A comment: what the file pins and why the numbers are right.
//   $ run scenarios/smoke/two-flows.yaml --format csv
//   the expected standard output, byte for byte
//   $ run scenarios/broken/unit.yaml
//   ! 2 scenarios/broken/unit.yaml:3:9: found "25"; expected a rate such as 25 Gbps
//
// "! STATUS [TEXT]" ends a command that must exit with STATUS and, where TEXT is given, print it on
// standard error. Without that line the status must be 0. Comments stand before the first command
// only. KVLANE_UPDATE_GOLDEN=1 rewrites the file from what the program prints now; refused where CI
// is set.

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

struct Step {
  std::string arguments;
  std::size_t line = 0;  // of the "$" line, from 1
  std::string expected;  // standard output, then the "!" line if there is one
};

struct Golden {
  std::string head;
  std::vector<Step> steps;
};

struct Outcome {
  std::string out;
  std::string err;
  int status = 0;
};

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path.string());
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

Golden parse(const fs::path& path) {
  std::istringstream in(read_file(path));
  Golden golden;
  std::string line;
  for (std::size_t number = 1; std::getline(in, line); ++number) {
    if (line.starts_with("$ ")) {
      golden.steps.push_back({line.substr(2), number, {}});
    } else if (golden.steps.empty()) {
      if (!line.empty() && line[0] != '#') {
        throw std::runtime_error(path.string() + ": output before the first '$ ' line");
      }
      golden.head += line + "\n";
    } else {
      golden.steps.back().expected += line + "\n";
    }
  }
  if (golden.steps.empty()) throw std::runtime_error(path.string() + ": no '$ ' line");
  return golden;
}

std::string shell_quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

Outcome execute(const std::string& program, const std::string& arguments) {
  std::string pattern = (fs::temp_directory_path() / "kvlane-golden-XXXXXX").string();
  const int file = mkstemp(pattern.data());
  if (file < 0) throw std::runtime_error("cannot make a temporary file");
  const std::string command =
      shell_quoted(program) + " " + arguments + " 2>" + shell_quoted(pattern) + " </dev/null";
  Outcome outcome;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot run " + command);
  std::array<char, 4096> buffer{};
  while (const std::size_t count = fread(buffer.data(), 1, buffer.size(), pipe)) {
    outcome.out.append(buffer.data(), count);
  }
  const int ended = pclose(pipe);
  outcome.status = WIFEXITED(ended) ? WEXITSTATUS(ended) : 128 + WTERMSIG(ended);
  outcome.err = read_file(pattern);
  fs::remove(pattern);
  return outcome;
}

// What the golden file would have to hold for this outcome. A step that names a status keeps its
// wish for a text.
std::string rendered(const Outcome& outcome, bool with_text) {
  std::string text = outcome.out;
  if (!text.empty() && text.back() != '\n') text += "\n\\ no newline at the end\n";
  if (outcome.status == 0) return text;
  text += "! " + std::to_string(outcome.status);
  const std::string first_line = outcome.err.substr(0, outcome.err.find('\n'));
  if (with_text && !first_line.empty()) text += " " + first_line;
  return text + "\n";
}

bool wants_text(const std::string& expected) {
  const std::size_t mark = expected.starts_with("! ") ? 0 : expected.rfind("\n! ");
  if (mark == std::string::npos) return true;
  const std::size_t status = expected.find_first_not_of("\n! ", mark);
  const std::size_t blank = expected.find_first_of(" \n", status);
  return blank != std::string::npos && expected[blank] == ' ';
}

// Prints the first line that differs; true where none does.
bool same(const fs::path& path, const Step& step, const std::string& actual,
          const Outcome& outcome) {
  if (actual == step.expected) return true;
  std::istringstream expected_lines(step.expected);
  std::istringstream actual_lines(actual);
  std::string expected_line;
  std::string actual_line;
  std::size_t number = step.line;
  bool more_expected = false;
  bool more_actual = false;
  do {
    ++number;
    more_expected = static_cast<bool>(std::getline(expected_lines, expected_line));
    more_actual = static_cast<bool>(std::getline(actual_lines, actual_line));
  } while (more_expected && more_actual && expected_line == actual_line);
  std::cout << path.string() << ":" << number << ": differs, command: " << step.arguments
            << "\n  expected: " << (more_expected ? expected_line : "(end of output)")
            << "\n  actual:   " << (more_actual ? actual_line : "(end of output)") << "\n";
  if (!outcome.err.empty()) std::cout << "  its standard error:\n" << outcome.err;
  return false;
}

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' && std::string(value) != "0";
}

int run(const fs::path& path, const std::string& program) {
  const Golden golden = parse(path);
  const bool update = is_set("KVLANE_UPDATE_GOLDEN");
  if (update && is_set("CI")) throw std::runtime_error("golden files are not updated in CI");
  std::string updated = golden.head;
  bool all_same = true;
  for (const Step& step : golden.steps) {
    const Outcome outcome = execute(program, step.arguments);
    const std::string actual = rendered(outcome, wants_text(step.expected));
    updated += "$ " + step.arguments + "\n" + actual;
    if (!update) all_same = same(path, step, actual, outcome) && all_same;
  }
  if (update && updated != read_file(path)) {
    const fs::path fresh = path.string() + ".new";
    std::ofstream(fresh, std::ios::binary) << updated;
    fs::rename(fresh, path);
    std::cout << "updated " << path.string() << "\n";
  }
  if (!all_same)
    std::cout << "if this is meant: KVLANE_UPDATE_GOLDEN=1, and say why in the commit\n";
  return all_same ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: golden_runner FILE.txt PROGRAM\n";
    return 2;
  }
  try {
    return run(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
}
