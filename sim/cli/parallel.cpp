#include "sim/cli/parallel.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace kvlane::cli {

void parallel_for(std::size_t n, int jobs, const std::function<void(std::size_t)>& body) {
  std::mutex mutex;
  std::size_t next = 0;
  std::size_t failed_at = n;
  std::exception_ptr failure;
  const auto work = [&] {
    while (true) {
      std::size_t i = 0;
      {
        const std::lock_guard lock(mutex);
        if (next >= n || failure) return;
        i = next++;
      }
      try {
        body(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure || i < failed_at) {
          failed_at = i;
          failure = std::current_exception();
        }
      }
    }
  };
  const std::size_t count = std::min(n, static_cast<std::size_t>(std::max(jobs, 1)));
  std::vector<std::thread> threads;
  for (std::size_t t = 1; t < count; ++t) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace kvlane::cli
