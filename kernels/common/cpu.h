#pragma once
// What CPU kernels run on: a fixed set of threads and memory that is kept between calls, so that
// no call allocates once the largest shape has been seen.

#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace kvlane::kernels {

class Cpu {
 public:
  // `threads` workers in all, the caller among them; `pinned`: each to one of the processors that
  // this process may use, the caller until the end of this object, which is its to end. Throws
  // std::invalid_argument below 1, std::system_error where a thread cannot start.
  explicit Cpu(int threads, bool pinned = false);
  ~Cpu();
  Cpu(const Cpu&) = delete;
  Cpu& operator=(const Cpu&) = delete;

  int threads() const { return threads_; }

  // body(task, worker) for every task in [0, tasks), each once; returns when all are done. Workers
  // take `grain` tasks at a time. Not reentrant. The first exception of a body is thrown again
  // here, after every worker has stopped.
  template <typename Body>
  void parallel_for(std::size_t tasks, Body&& body, std::size_t grain = 1) {
    using Plain = std::remove_reference_t<Body>;
    run(
        tasks, grain,
        [](void* self, std::size_t task, int worker) {
          (*static_cast<Plain*>(self))(task, worker);
        },
        const_cast<void*>(static_cast<const void*>(std::addressof(body))));
  }

  // At least `bytes` bytes, 64-byte aligned, valid until the next call. What was in them before is
  // lost when they grow.
  void* scratch(std::size_t bytes);

 private:
  using Task = void (*)(void* self, std::size_t task, int worker);
  void run(std::size_t tasks, std::size_t grain, Task task, void* self);

  struct State;
  int threads_;
  std::unique_ptr<State> state_;
};

// n processors that this process may use (affinity, not the machine's count), at least 1.
int usable_processors();

}  // namespace kvlane::kernels
