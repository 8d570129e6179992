#include "kernels/common/cpu.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

namespace kvlane::kernels {

namespace {

std::vector<int> allowed_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> allowed;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int i = 0; i < CPU_SETSIZE; ++i) {
      if (CPU_ISSET(static_cast<std::size_t>(i), &set)) allowed.push_back(i);
    }
  }
  return allowed;
}

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

struct Cpu::State {
  std::mutex mutex;
  std::condition_variable start, done;
  // Kernels follow each other closely: whoever waits looks for a while before it sleeps, so that a
  // call costs a microsecond or two and not the system's wake-up. Not where threads share
  // processors.
  bool looks = false;
  std::atomic<std::uint64_t> round{0};  // of parallel_for calls; changed under the mutex
  std::atomic<int> busy{0};             // workers that have not finished the round
  std::atomic<bool> stop{false};
  std::exception_ptr failure;

  Task task = nullptr;
  void* self = nullptr;
  std::size_t tasks = 0, grain = 1;
  std::atomic<std::size_t> next{0};

  bool pinned = false;
  cpu_set_t callers_processors;  // before it was pinned

  std::vector<std::thread> workers;
  std::unique_ptr<void, Free> scratch;
  std::size_t scratch_bytes = 0;

  void take(int worker) {
    try {
      for (;;) {
        const std::size_t first = next.fetch_add(grain, std::memory_order_relaxed);
        if (first >= tasks) return;
        for (std::size_t i = first; i < std::min(first + grain, tasks); ++i) task(self, i, worker);
      }
    } catch (...) {
      next.store(tasks, std::memory_order_relaxed);
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  }

  template <class Ready>
  bool seen_soon(Ready ready) const {
    using Clock = std::chrono::steady_clock;
    constexpr auto kWhile = std::chrono::microseconds(200);
    constexpr int kLooks = 64;  // between two looks at the clock
    for (const auto end = Clock::now() + kWhile; looks && Clock::now() < end; sched_yield()) {
      for (int look = 0; look < kLooks; ++look) {
        if (ready()) return true;
        pause();
      }
    }
    return ready();
  }

  void work(int worker) {
    std::uint64_t seen = 0;
    for (;;) {
      const auto ready = [&] { return stop.load() || round.load() != seen; };
      if (!seen_soon(ready)) {
        std::unique_lock lock(mutex);
        start.wait(lock, ready);
      }
      if (stop.load()) return;
      seen = round.load();
      take(worker);
      if (busy.fetch_sub(1) == 1) {
        // Under the mutex: the caller is either before its look at `busy` or asleep.
        const std::lock_guard lock(mutex);
        done.notify_one();
      }
    }
  }

  void end() {
    {
      const std::lock_guard lock(mutex);
      stop.store(true);
    }
    start.notify_all();
    for (std::thread& worker : workers) worker.join();
    if (pinned)
      pthread_setaffinity_np(pthread_self(), sizeof callers_processors, &callers_processors);
  }
};

Cpu::Cpu(int threads, bool pinned) : threads_(threads), state_(std::make_unique<State>()) {
  if (threads < 1) throw std::invalid_argument("a CPU with no threads");
  state_->looks = threads <= usable_processors();
  const std::vector<int> allowed = pinned ? allowed_processors() : std::vector<int>{};
  const auto pin = [&](pthread_t thread, int worker) {
    if (allowed.empty()) return;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<std::size_t>(allowed[static_cast<std::size_t>(worker) % allowed.size()]),
            &set);
    pthread_setaffinity_np(thread, sizeof set, &set);
  };
  if (!allowed.empty()) {
    state_->pinned = pthread_getaffinity_np(pthread_self(), sizeof state_->callers_processors,
                                            &state_->callers_processors) == 0;
  }
  pin(pthread_self(), 0);
  try {
    for (int worker = 1; worker < threads; ++worker) {
      state_->workers.emplace_back([state = state_.get(), worker] { state->work(worker); });
      pin(state_->workers.back().native_handle(), worker);
    }
  } catch (...) {
    state_->end();
    throw;
  }
}

Cpu::~Cpu() { state_->end(); }

void Cpu::run(std::size_t tasks, std::size_t grain, Task task, void* self) {
  State& state = *state_;
  grain = std::max<std::size_t>(grain, 1);
  if (threads_ == 1 || tasks <= grain) {
    for (std::size_t i = 0; i < tasks; ++i) task(self, i, 0);
    return;
  }
  {
    const std::lock_guard lock(state.mutex);
    state.task = task;
    state.self = self;
    state.tasks = tasks;
    state.grain = grain;
    state.next.store(0, std::memory_order_relaxed);
    state.failure = nullptr;
    state.busy.store(threads_ - 1);
    state.round.fetch_add(1);
  }
  state.start.notify_all();
  state.take(0);
  const auto over = [&] { return state.busy.load() == 0; };
  if (!state.seen_soon(over)) {
    std::unique_lock lock(state.mutex);
    state.done.wait(lock, over);
  }
  if (state.failure) std::rethrow_exception(state.failure);
}

void* Cpu::scratch(std::size_t bytes) {
  State& state = *state_;
  if (bytes > state.scratch_bytes) {
    const std::size_t rounded = (bytes + 63) / 64 * 64;
    void* memory = std::aligned_alloc(64, rounded);
    if (memory == nullptr) throw std::bad_alloc();
    state.scratch.reset(memory);
    state.scratch_bytes = rounded;
  }
  return state.scratch.get();
}

int usable_processors() { return std::max<int>(1, static_cast<int>(allowed_processors().size())); }

}  // namespace kvlane::kernels
