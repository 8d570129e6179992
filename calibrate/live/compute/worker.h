#pragma once
// A thread that carries out jobs of a few queues: each in the order posted, the queues in turns,
// a step at a time, so that a long job of one stream does not hold up the other.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "calibrate/live/compute/work_calls.h"
#include "sim/port/compute.h"
#include "sim/port/trace.h"

namespace kvlane::live {

// One post of the port, until its completion has been told.
struct Job {
  enum class Kind : std::uint8_t { work, copy, prepare };
  Kind kind = Kind::work;
  Work work{};
  CopySpec copy{};
  Callback completion{};
  TraceRecord record{};
  // Of the worker.
  std::chrono::steady_clock::time_point begin{}, end{};
  std::chrono::steady_clock::time_point not_before{};  // a wait, which takes no processor
  std::shared_ptr<const WorkCall> calls;
  std::int64_t next = 0;  // call or byte
  std::optional<Selection> selection;
  std::exception_ptr error;
  // Of a preparation: who waits gets the job back, its error with it.
  std::shared_ptr<std::promise<std::unique_ptr<Job>>> told;
};

// Does jobs, one step at a time; made, used and destroyed by the worker's thread.
class Crew {
 public:
  virtual ~Crew() = default;
  // Makes the job ready. False: not beside the `others` whose calls are under way; asked again
  // later.
  virtual bool begin(Job& job, bool others) = 0;
  // True: the job has ended.
  virtual bool step(Job& job) = 0;
};

class Worker {
 public:
  // `make` runs in the thread. `processors`: where the thread may run; empty: anywhere. `ended` is
  // called from the thread for every job that has ended or failed.
  Worker(std::size_t queues, std::vector<int> processors,
         std::function<std::unique_ptr<Crew>()> make,
         std::function<void(std::unique_ptr<Job>)> ended);
  // Waits for the step at hand; what is left is dropped, and nobody is told.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void post(std::size_t queue, std::unique_ptr<Job> job);

 private:
  struct Queue {
    std::deque<std::unique_ptr<Job>> jobs;  // the front one may be under way
    bool under_way = false;
  };
  void run(const std::vector<int>& processors, const std::function<std::unique_ptr<Crew>()>& make);
  Queue* choose(std::chrono::steady_clock::time_point now);
  bool advance(Crew& crew, Queue& queue);

  std::function<void(std::unique_ptr<Job>)> ended_;
  std::mutex mutex_;
  std::condition_variable posted_;
  bool stopping_ = false;
  std::vector<Queue> queues_;
  std::size_t turn_ = 0;
  std::size_t calling_ = 0;  // jobs under way that have calls
  std::thread thread_;
};

}  // namespace kvlane::live
