#pragma once
// C++20 coroutines for the sequential flows (a prefill, a decode iteration over its layers), so
// that the code reads like the sentence that describes it. A Task starts at once and runs to its
// first suspension; its frame is freed when it ends. An exception inside is kept in the TaskScope
// and rethrown by TaskScope::rethrow(), after the loop has run.
//
//   Task prefill(TaskScope&, ...) { co_await Await(...); }

#include <coroutine>
#include <cstdint>
#include <exception>
#include <utility>
#include <vector>

#include "sim/port/event_loop.h"

namespace kvlane {

// Owns what tasks of one run leave behind: the first exception, and frames that never ended.
class TaskScope {
 public:
  TaskScope() = default;
  TaskScope(const TaskScope&) = delete;
  TaskScope& operator=(const TaskScope&) = delete;
  ~TaskScope() {
    // Destroying a frame unregisters it, which moves the last into its place.
    while (!frames_.empty()) frames_.back().destroy();
  }
  void rethrow() {
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }
  bool has_error() const { return error_ != nullptr; }
  std::size_t unfinished() const { return frames_.size(); }

 private:
  friend class Task;
  std::vector<std::coroutine_handle<>> frames_;
  std::vector<std::size_t*> slots_;
  std::exception_ptr error_;
};

class Task {
 public:
  struct promise_type {
    TaskScope* scope = nullptr;
    std::size_t slot = 0;
    bool failed = false;

    template <class... Rest>
    explicit promise_type(TaskScope& owner, Rest&&...) : scope(&owner) {}
    template <class Self, class... Rest>
    promise_type(Self&, TaskScope& owner, Rest&&...) : scope(&owner) {}
    promise_type(const promise_type&) = delete;
    promise_type& operator=(const promise_type&) = delete;
    ~promise_type() {
      scope->frames_[slot] = scope->frames_.back();
      scope->slots_[slot] = scope->slots_.back();
      *scope->slots_[slot] = slot;
      scope->frames_.pop_back();
      scope->slots_.pop_back();
    }
    Task get_return_object() {
      slot = scope->frames_.size();
      scope->frames_.push_back(std::coroutine_handle<promise_type>::from_promise(*this));
      scope->slots_.push_back(&slot);
      return {};
    }
    std::suspend_never initial_suspend() noexcept { return {}; }
    // A frame that ended in an exception stays: operations in flight still point into it.
    struct Final {
      bool failed;
      bool await_ready() const noexcept { return !failed; }
      void await_suspend(std::coroutine_handle<>) const noexcept {}
      void await_resume() const noexcept {}
    };
    Final final_suspend() noexcept { return {failed}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept {
      failed = true;
      if (!scope->error_) scope->error_ = std::current_exception();
    }
  };
};

inline Callback resume_callback(std::coroutine_handle<> handle) {
  return {[](void* frame, std::uint64_t) { std::coroutine_handle<>::from_address(frame).resume(); },
          handle.address(), 0};
}

// co_await Completion(start): `start(callback)` posts an operation whose completion resumes here.
template <class Start>
struct Completion {
  Start start;
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> handle) { start(resume_callback(handle)); }
  void await_resume() const noexcept {}
};
template <class Start>
Completion(Start) -> Completion<Start>;

// A one-shot signal between tasks: waiting after set() does not suspend. Waiters resume through the
// loop at the time of set(), in the order in which they waited.
class Signal {
 public:
  explicit Signal(EventLoop& loop) : loop_(&loop) {}
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;
  bool is_set() const { return set_; }
  void set() {
    if (std::exchange(set_, true)) return;
    for (const Callback& waiter : waiters_) loop_->schedule_at(loop_->now(), waiter);
    waiters_.clear();
  }
  void reset() { set_ = false; }
  void on_set(Callback callback) {
    if (set_) {
      loop_->schedule_at(loop_->now(), callback);
    } else {
      waiters_.push_back(callback);
    }
  }
  // Awaited through a pointer: g++ 12 copies an awaitable that a call returns by reference.
  struct Awaiter {
    Signal* signal;
    bool await_ready() const noexcept { return signal->set_; }
    void await_suspend(std::coroutine_handle<> handle) {
      signal->waiters_.push_back(resume_callback(handle));
    }
    void await_resume() const noexcept {}
  };
  Awaiter operator co_await() { return {this}; }

 private:
  EventLoop* loop_;
  std::vector<Callback> waiters_;
  bool set_ = false;
};

// Counts operations down to zero, then sets: add() before each post, done() as its completion.
class WaitGroup {
 public:
  explicit WaitGroup(EventLoop& loop) : signal_(loop) { signal_.set(); }
  void add(std::uint64_t n = 1) {
    pending_ += n;
    if (pending_ > 0) signal_.reset();
  }
  void done() {
    if (--pending_ == 0) signal_.set();
  }
  Callback done_callback() {
    return {[](void* self, std::uint64_t) { static_cast<WaitGroup*>(self)->done(); }, this, 0};
  }
  Signal::Awaiter wait() { return signal_.operator co_await(); }

 private:
  Signal signal_;
  std::uint64_t pending_ = 0;
};

}  // namespace kvlane
