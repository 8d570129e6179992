#include "tests/support/cuda_host/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <boost/context/detail/fcontext.hpp>
#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "tests/support/cuda_host/sanitize.h"

namespace cuda_host {
namespace {

namespace context = boost::context::detail;

// Of the switch in progress; one thread drives all fibers.
Fiber* leaving = nullptr;
Fiber* entering = nullptr;

std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace

Fiber::Fiber() {
  bytes_ = kStackBytes;
  void* mapping = mmap(nullptr, bytes_ + page_bytes(), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) {
    throw std::system_error(errno, std::generic_category(), "the stack of a CUDA thread");
  }
  mapping_ = mapping;
  mprotect(mapping_, page_bytes(), PROT_NONE);
  bottom_ = static_cast<char*>(mapping_) + page_bytes();
#if defined(KVLANE_CUDA_HOST_TSAN)
  thread_state_ = __tsan_create_fiber(0);
#endif
}

Fiber::Fiber(ThisThread) {
#if defined(KVLANE_CUDA_HOST_TSAN)
  thread_state_ = __tsan_get_current_fiber();
#endif
}

Fiber::~Fiber() {
  if (mapping_ == nullptr) return;
  unpoison();
  munmap(mapping_, bytes_ + page_bytes());
#if defined(KVLANE_CUDA_HOST_TSAN)
  __tsan_destroy_fiber(thread_state_);
#endif
}

void Fiber::unpoison() {
#if defined(KVLANE_CUDA_HOST_ASAN)
  __asan_unpoison_memory_region(bottom_, bytes_);
#endif
#if defined(KVLANE_CUDA_HOST_MSAN)
  __msan_unpoison(bottom_, bytes_);
#endif
}

template <typename Transfer>
void Fiber::first_arrival(Transfer transfer) {
  arrived(transfer.fctx);
  entering->entry_();
  std::abort();  // an entry leaves by Fiber::leave
}

void Fiber::start(void (*entry)()) {
  entry_ = entry;
  unpoison();
  fake_stack_ = nullptr;
  // The top: stacks grow downwards.
  context_ = context::make_fcontext(const_cast<char*>(static_cast<const char*>(bottom_)) + bytes_,
                                    bytes_, &Fiber::first_arrival<context::transfer_t>);
}

void Fiber::arrived(void* came_from) {
  leaving->context_ = came_from;
  [[maybe_unused]] const void* bottom = nullptr;
  [[maybe_unused]] std::size_t bytes = 0;
#if defined(KVLANE_CUDA_HOST_ASAN)
  __sanitizer_finish_switch_fiber(entering->fake_stack_, &bottom, &bytes);
#elif defined(KVLANE_CUDA_HOST_MSAN)
  __msan_finish_switch_fiber(&bottom, &bytes);
#endif
  // This is how one learns where the driving thread's stack lies.
  if (leaving->mapping_ == nullptr) {
    leaving->bottom_ = bottom;
    leaving->bytes_ = bytes;
  }
}

void Fiber::jump(Fiber& from, Fiber& to, [[maybe_unused]] bool for_good) {
  leaving = &from;
  entering = &to;
#if defined(KVLANE_CUDA_HOST_ASAN)
  // Without a place to save it the sanitizer frees the fake stack.
  __sanitizer_start_switch_fiber(for_good ? nullptr : &from.fake_stack_, to.bottom_, to.bytes_);
#elif defined(KVLANE_CUDA_HOST_MSAN)
  __msan_start_switch_fiber(to.bottom_, to.bytes_);
#elif defined(KVLANE_CUDA_HOST_TSAN)
  // no_sync: a switch orders nothing, only barriers and fences of the kernel do.
  __tsan_switch_to_fiber(to.thread_state_, __tsan_switch_to_fiber_no_sync);
#endif
  const context::transfer_t back = context::jump_fcontext(to.context_, nullptr);
  arrived(back.fctx);
}

void Fiber::swap(Fiber& from, Fiber& to) { jump(from, to, false); }

void Fiber::leave(Fiber& from, Fiber& to) {
  jump(from, to, true);
  std::abort();
}

void Fiber::abandon([[maybe_unused]] Fiber& current, [[maybe_unused]] void* cell) {
#if defined(KVLANE_CUDA_HOST_TSAN)
  __tsan_switch_to_fiber(thread_state_, __tsan_switch_to_fiber_no_sync);
  __tsan_release(cell);
  __tsan_switch_to_fiber(current.thread_state_, __tsan_switch_to_fiber_no_sync);
  // Its call stack is still the old one: a new state begins with an empty one.
  __tsan_destroy_fiber(thread_state_);
  thread_state_ = __tsan_create_fiber(0);
#endif
}

}  // namespace cuda_host
