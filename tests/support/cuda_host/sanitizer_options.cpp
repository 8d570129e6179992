// What the sanitizers are told at start, in the program so that it holds however the test is run.

#include "tests/support/cuda_host/sanitize.h"

// NOLINTBEGIN(readability-identifier-naming): the sanitizers look for these names.
#if defined(__SANITIZE_THREAD__)
// By default a second race at an address that was reported once is swallowed, and shared memory
// comes back at the same address launch after launch.
extern "C" const char* __tsan_default_options();
const char* __tsan_default_options() { return "suppress_equal_addresses=0"; }
#endif

#if defined(KVLANE_CUDA_HOST_ASAN)
extern "C" const char* __asan_default_options();
const char* __asan_default_options() { return "detect_stack_use_after_return=1"; }
extern "C" const char* __ubsan_default_options();
const char* __ubsan_default_options() { return "print_stacktrace=1"; }
#endif

#if defined(KVLANE_CUDA_HOST_MSAN)
// The standard library is not compiled with MemorySanitizer: what it writes would stay "unwritten".
// Device and shared memory are poisoned by the executor; the rest of the heap is not looked at.
extern "C" const char* __msan_default_options();
const char* __msan_default_options() { return "poison_in_malloc=0:poison_in_free=0"; }
#endif
// NOLINTEND(readability-identifier-naming)
