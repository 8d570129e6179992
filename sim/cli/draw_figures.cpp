#include "sim/cli/draw_figures.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <filesystem>

#include "sim/cli/arguments.h"

extern char** environ;

namespace kvlane::cli {

void draw_figures(const std::string& script, const std::vector<std::string>& arguments,
                  const Context& context) {
  const std::string path =
      (std::filesystem::path(context.preset_dir).parent_path() / "analysis" / script).string();
  // The distribution's python3 is the one that has the distribution's matplotlib.
  const char* python = std::filesystem::exists("/usr/bin/python3") ? "/usr/bin/python3" : "python3";
  std::vector<std::string> words = {python, path};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const std::string command = fmt::format("{}", fmt::join(words, " "));
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t child = 0;
  if (!std::filesystem::exists(path) ||
      posix_spawnp(&child, python, nullptr, nullptr, argv.data(), environ) != 0) {
    print_error(fmt::format("no figures drawn; where python3 and matplotlib are: {}", command));
    return;
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    print_error(fmt::format("the figures could not be drawn: {}", command));
  }
}

}  // namespace kvlane::cli
