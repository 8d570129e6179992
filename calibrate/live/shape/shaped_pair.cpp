#include "calibrate/live/shape/shaped_pair.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "calibrate/live/role/options.h"
#include "sim/run/strategy_run.h"

extern char** environ;

namespace kvlane::live {
namespace {

std::string space_of(const std::string& name) { return "/run/netns/" + name; }

struct ToolResult {
  int status = -1;
  std::string said;
};

// A program of the PATH with its words; what it says on both streams.
ToolResult run_tool(const std::vector<std::string>& words) {
  ToolResult result;
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) {
    throw std::system_error(errno, std::generic_category(), "pipe");
  }
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, pipe[1], STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, pipe[1], STDERR_FILENO);
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  pid_t pid = -1;
  const int error = ::posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(pipe[1]);
  if (error == 0) {
    std::array<char, 1024> part;
    for (;;) {
      const ssize_t n = ::read(pipe[0], part.data(), part.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      result.said.append(part.data(), static_cast<std::size_t>(n));
    }
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  ::close(pipe[0]);
  if (error != 0) {
    throw OptionError(
        fmt::format("--shape: no `{}` here; expected the package iproute2", words[0]));
  }
  while (!result.said.empty() && result.said.back() == '\n') result.said.pop_back();
  std::replace(result.said.begin(), result.said.end(), '\n', ' ');
  return result;
}

void must(const std::vector<std::string>& words) {
  const ToolResult result = run_tool(words);
  if (result.status == 0) return;
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + word;
  throw RunError(fmt::format("--shape: `{}` ended with {}: {}", line, result.status, result.said));
}

// tbf sends as much at once as the burst holds: enough for one timer of the kernel, little enough
// that a short transfer is held to the rate: 1 ms.
std::int64_t burst_of(Bandwidth rate) {
  return std::max<std::int64_t>(16 << 10U, rate.bits_per_sec() / 8 / 1000);
}

// The queue holds 5 ms.
std::vector<std::string> tbf(const std::string& space, const std::string& device, Bandwidth rate) {
  const std::int64_t a_second = rate.bits_per_sec() / 8;
  const std::int64_t burst = burst_of(rate);
  const std::int64_t limit = std::max<std::int64_t>(256 << 10U, a_second / 200);
  return {"ip",
          "netns",
          "exec",
          space,
          "tc",
          "qdisc",
          "add",
          "dev",
          device,
          "root",
          "tbf",
          "rate",
          fmt::format("{}bit", rate.bits_per_sec()),
          "burst",
          fmt::format("{}", burst),
          "limit",
          fmt::format("{}", limit)};
}

}  // namespace

ShapedPair::ShapedPair(Bandwidth rate, const AboutToMake& about_to_make) {
  if (::geteuid() != 0) {
    throw OptionError("--shape makes network namespaces; expected root");
  }
  prefill_ = fmt::format("kvlane-{}-p", ::getpid());
  decode_ = fmt::format("kvlane-{}-d", ::getpid());
  std::vector<std::string> made;
  for (const std::string& space : {prefill_space(), decode_space()}) {
    std::error_code error;
    if (std::filesystem::exists(space, error)) {
      throw RunError(fmt::format("--shape: there is a namespace {} already", space));
    }
  }
  try {
    for (const std::string& name : {prefill_, decode_}) {
      if (about_to_make) about_to_make(space_of(name));
      made.push_back(name);
      must({"ip", "netns", "add", name});
    }
    must({"ip", "link", "add", "kvlane0", "netns", prefill_, "type", "veth", "peer", "name",
          "kvlane1", "netns", decode_});
    const struct {
      const std::string& space;
      const char* device;
      std::string address;
    } ends[] = {{prefill_, "kvlane0", prefill_address()}, {decode_, "kvlane1", decode_address()}};
    for (const auto& end : ends) {
      must({"ip", "-n", end.space, "addr", "add", end.address + "/24", "dev", end.device});
      must({"ip", "-n", end.space, "link", "set", "lo", "up"});
      must({"ip", "-n", end.space, "link", "set", end.device, "up"});
      // Segments that fit the burst: cutting larger ones into packets would cost the roles'
      // processors what a NIC does by itself.
      must({"ip", "-n", end.space, "link", "set", end.device, "gso_max_size",
            fmt::format("{}", std::min<std::int64_t>(burst_of(rate), 64 << 10U) - 1024)});
      must(tbf(end.space, end.device, rate));
      // A connection that has been idle goes on at the speed it had.
      must({"ip", "netns", "exec", end.space, "sh", "-c",
            "echo 0 > /proc/sys/net/ipv4/tcp_slow_start_after_idle"});
      // What instances come with; bbr's pacing and probing would be measured otherwise.
      run_tool({"ip", "netns", "exec", end.space, "sh", "-c",
                "echo cubic > /proc/sys/net/ipv4/tcp_congestion_control"});
    }
  } catch (...) {
    for (const std::string& name : made) run_tool({"ip", "netns", "del", name});
    throw;
  }
}

ShapedPair::~ShapedPair() {
  try {
    run_tool({"ip", "netns", "del", prefill_});
    run_tool({"ip", "netns", "del", decode_});
  } catch (const std::exception&) {
    // The tool that made them is gone; nothing more can be done here.
    return;
  }
}

std::string ShapedPair::prefill_space() const { return space_of(prefill_); }
std::string ShapedPair::decode_space() const { return space_of(decode_); }

void enter_space(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 || ::setns(fd, CLONE_NEWNET) != 0) {
    const int error = errno;
    if (fd >= 0) ::close(fd);
    throw std::system_error(error, std::generic_category(), "entering " + path);
  }
  ::close(fd);
}

}  // namespace kvlane::live
