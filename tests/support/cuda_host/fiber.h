#pragma once
// A stack that code runs on, and the one place where the program jumps from stack to stack
// (Boost.Context's assembly) and says so to the sanitizers.

#include <cstddef>

namespace cuda_host {

class Fiber {
 public:
  // A stack of its own with a guard page below it.
  static constexpr std::size_t kStackBytes = 128 * 1024;
  struct ThisThread {};

  Fiber();
  explicit Fiber(ThisThread);  // stands for the stack of the thread that drives the others
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // The next switch to it calls `entry`, which must never return. What ran on it before is dropped.
  void start(void (*entry)());

  // Runs `to`; returns when something switches back to `from`, the fiber of the caller.
  static void swap(Fiber& from, Fiber& to);
  // As swap, but nothing will switch back to `from`.
  [[noreturn]] static void leave(Fiber& from, Fiber& to);

  // For a fiber that was left in the middle: ThreadSanitizer takes what it did as done before
  // whoever acquires the cell (otherwise freeing a buffer reports a race with it), and forgets it.
  void abandon(Fiber& current, void* cell);

 private:
  void unpoison();
  static void jump(Fiber& from, Fiber& to, bool for_good);
  static void arrived(void* came_from);
  template <typename Transfer>
  static void first_arrival(Transfer transfer);

  void* context_ = nullptr;
  void (*entry_)() = nullptr;
  void* mapping_ = nullptr;       // guard page and stack; null for the driving thread
  const void* bottom_ = nullptr;  // lowest address of the stack
  std::size_t bytes_ = 0;
  void* fake_stack_ = nullptr;    // AddressSanitizer's, while the fiber does not run
  void* thread_state_ = nullptr;  // ThreadSanitizer's
};

}  // namespace cuda_host
