#pragma once
// A computation beside a transport, on its processors: what it loses while bytes move is what they
// cost it. A process's CPU time would leave out what the kernel and a hypervisor do for them.

#include <atomic>
#include <cstdint>
#include <thread>

namespace kvlane::live {

class Neighbour {
 public:
  Neighbour() : thread_([this] { run(); }) {}
  ~Neighbour() {
    over_ = true;
    thread_.join();
  }
  Neighbour(const Neighbour&) = delete;
  Neighbour& operator=(const Neighbour&) = delete;
  // Grows as it computes.
  std::uint64_t done() const { return done_.load(std::memory_order_relaxed); }

 private:
  void run() {
    std::uint64_t state = 1;
    while (!over_.load(std::memory_order_relaxed)) {
      for (int i = 0; i < 1000; ++i)
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      last_ = state;
      done_.fetch_add(1, std::memory_order_relaxed);
    }
  }

  std::atomic<bool> over_{false};
  std::atomic<std::uint64_t> done_{0};
  std::atomic<std::uint64_t> last_{0};  // so that the loop is not empty
  std::thread thread_;
};

}  // namespace kvlane::live
