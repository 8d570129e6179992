#pragma once
// What the executor tells the sanitizers. Each call is nothing unless this build has that
// sanitizer. Under ThreadSanitizer the executor's own files are compiled without -fsanitize=thread
// (its bookkeeping is no part of a kernel), so that build is known by KVLANE_CUDA_HOST_TSAN.

#include <cstddef>

#if defined(__has_feature)
#define KVLANE_HAS_FEATURE(x) __has_feature(x)
#else
#define KVLANE_HAS_FEATURE(x) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || KVLANE_HAS_FEATURE(address_sanitizer)
#define KVLANE_CUDA_HOST_ASAN 1
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if KVLANE_HAS_FEATURE(memory_sanitizer)
#define KVLANE_CUDA_HOST_MSAN 1
#include <sanitizer/msan_interface.h>
#endif
#if defined(KVLANE_CUDA_HOST_TSAN)
#include <sanitizer/tsan_interface.h>
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}
#endif

namespace cuda_host {

// Everything the lane did so far happens before whatever the lane does that acquires the cell
// later. Cells are 8 bytes apart: closer ones are one object to ThreadSanitizer and hide races.
inline void release([[maybe_unused]] void* cell) {
#if defined(KVLANE_CUDA_HOST_TSAN)
  __tsan_release(cell);
#endif
}
inline void acquire([[maybe_unused]] void* cell) {
#if defined(KVLANE_CUDA_HOST_TSAN)
  __tsan_acquire(cell);
#endif
}

// ThreadSanitizer sees malloc, free and memcpy even in files that are compiled without it; inside
// this scope it looks away. The scope must not contain a switch of fibers.
class Unseen {
 public:
#if defined(KVLANE_CUDA_HOST_TSAN)
  Unseen() {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  ~Unseen() {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
#else
  Unseen() {}
  ~Unseen() {}
#endif
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;
};

// Memory that nothing has written: reading it is a fault that MemorySanitizer reports.
inline void poison_uninitialised([[maybe_unused]] void* memory,
                                 [[maybe_unused]] std::size_t bytes) {
#if defined(KVLANE_CUDA_HOST_MSAN)
  if (bytes > 0) __msan_poison(memory, bytes);
#endif
}
inline void check_initialised([[maybe_unused]] const void* memory,
                              [[maybe_unused]] std::size_t bytes) {
#if defined(KVLANE_CUDA_HOST_MSAN)
  if (bytes > 0) __msan_check_mem_is_initialized(memory, bytes);
#endif
}

}  // namespace cuda_host
