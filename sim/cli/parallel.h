#pragma once
// Runs body(0) ... body(n - 1) on `jobs` threads, in rising order of start. The first exception by
// index is rethrown when all threads have stopped; after an exception nothing new is started.

#include <cstddef>
#include <functional>

namespace kvlane::cli {

void parallel_for(std::size_t n, int jobs, const std::function<void(std::size_t)>& body);

}  // namespace kvlane::cli
