#include "calibrate/live/loop/wall_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "sim/base/check.h"

namespace kvlane::live {
namespace {

constexpr Duration kLongestBlock = std::chrono::seconds(1);

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace

WallLoop::WallLoop(Duration spin) : spin_(spin) {
  epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  if (epoll_ < 0) fail("epoll_create1");
  event_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = static_cast<std::uint32_t>(event_);
  if (event_ < 0 || ::epoll_ctl(epoll_, EPOLL_CTL_ADD, event_, &event) != 0) {
    const int error = errno;
    if (event_ >= 0) ::close(event_);
    ::close(epoll_);
    errno = error;
    fail("eventfd");
  }
}

WallLoop::~WallLoop() {
  ::close(event_);
  ::close(epoll_);
}

TimePoint WallLoop::clock() const {
  return TimePoint(std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - zero_));
}

void WallLoop::start_clock(SteadyTime zero) {
  KVLANE_CHECK(times_.empty(), "{} timers wait on the old clock", times_.size());
  zero_ = zero;
  now_ = clock();
}

TimerId WallLoop::schedule_at(TimePoint at, Callback callback) {
  KVLANE_CHECK(at >= now_, "an event in the past");
  const std::uint64_t id = ++sequence_;
  times_.emplace(id, at);
  queue_.emplace(std::pair{at, id}, callback);
  return {id};
}

bool WallLoop::cancel(TimerId timer) {
  const auto found = times_.find(timer.value);
  if (found == times_.end()) return false;
  queue_.erase({found->second, found->first});
  times_.erase(found);
  return true;
}

void WallLoop::watch(int fd, std::uint32_t epoll_events, Pollable& target) {
  const auto slot = static_cast<std::size_t>(fd);
  if (watched_.size() <= slot) watched_.resize(slot + 1);
  KVLANE_CHECK(watched_[slot].target == nullptr, "descriptor {} is watched twice", fd);
  watched_[slot].target = &target;
  ++watched_[slot].generation;
  epoll_event event{};
  event.events = epoll_events;
  event.data.u64 =
      static_cast<std::uint64_t>(watched_[slot].generation) << 32U | static_cast<std::uint32_t>(fd);
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0) fail("epoll_ctl");
}

void WallLoop::change(int fd, std::uint32_t epoll_events) {
  epoll_event event{};
  event.events = epoll_events;
  event.data.u64 = static_cast<std::uint64_t>(watched_[static_cast<std::size_t>(fd)].generation)
                       << 32U |
                   static_cast<std::uint32_t>(fd);
  if (::epoll_ctl(epoll_, EPOLL_CTL_MOD, fd, &event) != 0) fail("epoll_ctl");
}

void WallLoop::unwatch(int fd) {
  Watched& watched = watched_[static_cast<std::size_t>(fd)];
  if (watched.target == nullptr) return;
  watched.target = nullptr;
  ::epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
}

void WallLoop::add(Background& work) { background_.push_back(&work); }

void WallLoop::remove(Background& work) {
  std::replace(background_.begin(), background_.end(), &work, static_cast<Background*>(nullptr));
}

void WallLoop::wake(Callback callback) {
  {
    const std::lock_guard lock(woken_mutex_);
    woken_.push_back(callback);
  }
  if (wake_sent_.exchange(true)) return;
  const std::uint64_t one = 1;
  // It can only fail when the counter is full, and then the loop is awake.
  [[maybe_unused]] const ssize_t written = ::write(event_, &one, sizeof one);
}

void WallLoop::run_woken() {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t read = ::read(event_, &count, sizeof count);
  wake_sent_ = false;
  std::vector<Callback> ready;
  {
    const std::lock_guard lock(woken_mutex_);
    ready.swap(woken_);
  }
  for (const Callback& callback : ready) callback();
}

// Runs the first timer whose time has come.
bool WallLoop::due() {
  if (queue_.empty()) return false;
  const auto first = queue_.begin();
  const TimePoint at = first->first.first;
  if (at > now_ && at > clock()) return false;
  now_ = std::max(now_, at);
  const Callback callback = first->second;
  times_.erase(first->first.second);
  queue_.erase(first);
  callback();
  return true;
}

// Looks at the descriptors, waiting at most `longest`; true when one was ready.
bool WallLoop::poll(Duration longest) {
  std::array<epoll_event, 64> events;
  const auto nanoseconds = std::max<std::int64_t>(0, longest.count() / 1000);
  timespec timeout{};
  timeout.tv_sec = nanoseconds / 1'000'000'000;
  timeout.tv_nsec = nanoseconds % 1'000'000'000;
  const int n =
      ::epoll_pwait2(epoll_, events.data(), static_cast<int>(events.size()), &timeout, nullptr);
  if (n < 0 && errno != EINTR) fail("epoll_pwait2");
  // A timer that came due meanwhile is earlier than what is seen now.
  while (!stopped_ && due()) {
  }
  now_ = std::max(now_, clock());
  for (int i = 0; i < n && !stopped_; ++i) {
    const std::uint64_t data = events[static_cast<std::size_t>(i)].data.u64;
    const auto fd = static_cast<int>(data & 0xffffffffU);
    if (fd == event_) {
      run_woken();
      continue;
    }
    const Watched& watched = watched_[static_cast<std::size_t>(fd)];
    if (watched.target != nullptr && watched.generation == data >> 32U) {
      watched.target->on_ready(fd, events[static_cast<std::size_t>(i)].events);
    }
  }
  return n > 0;
}

void WallLoop::run() {
  stopped_ = false;
  now_ = std::max(now_, clock());
  TimePoint busy_until = now_ + spin_;
  while (!stopped_) {
    bool worked = false;
    for (int i = 0; i < 64 && !stopped_ && due(); ++i) worked = true;
    for (std::size_t i = 0; i < background_.size() && !stopped_; ++i) {
      if (background_[i] != nullptr && background_[i]->advance()) worked = true;
    }
    background_.erase(std::remove(background_.begin(), background_.end(), nullptr),
                      background_.end());
    if (stopped_) break;
    if (!worked && queue_.empty() && holds_ == 0) break;
    const TimePoint time = clock();
    Duration longest = Duration::zero();
    if (!worked && time >= busy_until) {
      longest = kLongestBlock;
      if (!queue_.empty()) longest = std::min(longest, queue_.begin()->first.first - time);
    }
    worked = poll(longest) || worked;
    if (worked && spin_ > Duration::zero()) busy_until = clock() + spin_;
  }
}

}  // namespace kvlane::live
