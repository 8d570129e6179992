#include "calibrate/live/role/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <system_error>
#include <thread>

#include "sim/run/strategy_run.h"

extern char** environ;

namespace kvlane::live {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::string_view kListening = "listening ";

int left_ms(Clock::time_point end) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1000));
}

}  // namespace

ChildRole::ChildRole(const std::vector<std::string>& words, const std::string& enter,
                     const std::string& secret) {
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) {
    throw std::system_error(errno, std::generic_category(), "pipe");
  }
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const std::string named = "KVLANE_SECRET=" + secret;
  std::vector<char*> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (secret.empty() || std::strncmp(*entry, named.c_str(), 14) != 0) {
      environment.push_back(*entry);
    }
  }
  if (!secret.empty()) environment.push_back(const_cast<char*>(named.c_str()));
  environment.push_back(nullptr);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) {
    const int error = errno;
    ::close(pipe[0]);
    ::close(pipe[1]);
    throw std::system_error(error, std::generic_category(), "fork");
  }
  if (pid_ == 0) {
    // Only what is safe between fork and exec.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);
    ::dup2(pipe[1], STDERR_FILENO);
    const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    ::dup2(nothing, STDIN_FILENO);
    ::dup2(nothing, STDOUT_FILENO);
    if (!enter.empty()) {
      const int space = ::open(enter.c_str(), O_RDONLY | O_CLOEXEC);
      if (space < 0 || ::setns(space, CLONE_NEWNET) != 0) ::_exit(126);
    }
    ::execve(argv[0], argv.data(), environment.data());
    ::_exit(127);
  }
  ::close(pipe[1]);
  stderr_ = pipe[0];
}

ChildRole::~ChildRole() {
  if (wait(std::chrono::milliseconds(500)) < 0) {
    ::kill(pid_, SIGTERM);
    if (wait(std::chrono::seconds(2)) < 0) {
      ::kill(pid_, SIGKILL);
      wait(std::chrono::seconds(10));
    }
  }
  ::close(stderr_);
}

// False at the end of what it says.
bool ChildRole::read_more(int wait_ms) {
  pollfd ready{stderr_, POLLIN, 0};
  if (::poll(&ready, 1, wait_ms) <= 0) return true;
  std::array<char, 4096> part;
  const ssize_t n = ::read(stderr_, part.data(), part.size());
  if (n <= 0) return n < 0 && errno == EINTR;
  buffer_.append(part.data(), static_cast<std::size_t>(n));
  for (std::size_t end = buffer_.find('\n'); end != std::string::npos; end = buffer_.find('\n')) {
    const std::string line = buffer_.substr(0, end);
    buffer_.erase(0, end + 1);
    if (address_.empty() && line.rfind(kListening, 0) == 0) {
      address_ = line.substr(kListening.size());
    } else {
      said_ += line + '\n';
    }
  }
  return true;
}

std::string ChildRole::wait_until_listening(Duration limit) {
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(limit);
  while (address_.empty()) {
    if (!read_more(left_ms(end)) && address_.empty()) {
      wait(std::chrono::seconds(5));
      const std::size_t last = said_.find_last_not_of('\n');
      throw RunError(
          fmt::format("the prefill role ended before it listened ({}): {}", status_,
                      last == std::string::npos ? "it said nothing" : said_.substr(0, last + 1)));
    }
    if (Clock::now() > end) {
      throw RunError(
          fmt::format("the prefill role does not listen after {:.0f} s", to_seconds(limit)));
    }
  }
  return address_;
}

int ChildRole::wait(Duration limit) {
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(limit);
  while (status_ < 0) {
    int status = 0;
    const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
    if (ended == pid_) {
      status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      while (read_more(0)) {
        pollfd ready{stderr_, POLLIN, 0};
        if (::poll(&ready, 1, 0) <= 0) break;
      }
      break;
    }
    if (Clock::now() >= end) return -1;
    read_more(0);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return status_;
}

}  // namespace kvlane::live
