#include "calibrate/live/compute/worker.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "sim/base/check.h"

namespace kvlane::live {
namespace {

using Clock = std::chrono::steady_clock;

// Instead of one that could not be made.
struct FailedCrew final : Crew {
  std::exception_ptr error;
  bool begin(Job&, bool) override { std::rethrow_exception(error); }
  bool step(Job&) override { return true; }
};

void pin(const std::vector<int>& processors) {
  if (processors.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int processor : processors) {
    if (processor < 0 || processor >= CPU_SETSIZE) {
      throw std::runtime_error(
          fmt::format("processor {} to compute on; expected 0 to {}", processor, CPU_SETSIZE - 1));
    }
    CPU_SET(static_cast<std::size_t>(processor), &set);
  }
  const int error = pthread_setaffinity_np(pthread_self(), sizeof set, &set);
  if (error != 0) {
    throw std::runtime_error(fmt::format("cannot compute on processors {}: {}",
                                         fmt::join(processors, ","), std::strerror(error)));
  }
}

}  // namespace

Worker::Worker(std::size_t queues, std::vector<int> processors,
               std::function<std::unique_ptr<Crew>()> make,
               std::function<void(std::unique_ptr<Job>)> ended)
    : ended_(std::move(ended)), queues_(queues) {
  thread_ = std::thread([this, processors = std::move(processors), make = std::move(make)] {
    run(processors, make);
  });
}

Worker::~Worker() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  posted_.notify_one();
  thread_.join();
}

void Worker::post(std::size_t queue, std::unique_ptr<Job> job) {
  {
    const std::lock_guard lock(mutex_);
    KVLANE_CHECK(queue < queues_.size(), "no queue {}", queue);
    queues_[queue].jobs.push_back(std::move(job));
  }
  posted_.notify_one();
}

// The next queue in turn whose front job can go on now; under the mutex.
Worker::Queue* Worker::choose(Clock::time_point now) {
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    turn_ = (turn_ + 1) % queues_.size();
    Queue& queue = queues_[turn_];
    if (!queue.jobs.empty() && queue.jobs.front()->not_before <= now) return &queue;
  }
  return nullptr;
}

// A step of the queue's front job, without the mutex: only this thread takes jobs off. False: it
// could not begin.
bool Worker::advance(Crew& crew, Queue& queue) {
  Job& job = *[&] {
    const std::lock_guard lock(mutex_);
    return queue.jobs.front().get();
  }();
  bool over = false;
  try {
    if (!queue.under_way) {
      if (!crew.begin(job, calling_ > 0)) return false;
      queue.under_way = true;
      if (job.calls) ++calling_;
      job.begin = Clock::now();
      if (job.not_before > job.begin) return true;
    }
    over = crew.step(job);
  } catch (...) {
    job.error = std::current_exception();
    over = true;
  }
  if (!over) return true;
  job.end = Clock::now();
  if (std::exchange(queue.under_way, false) && job.calls) --calling_;
  std::unique_ptr<Job> ended;
  {
    const std::lock_guard lock(mutex_);
    ended = std::move(queue.jobs.front());
    queue.jobs.pop_front();
  }
  ended_(std::move(ended));
  return true;
}

void Worker::run(const std::vector<int>& processors,
                 const std::function<std::unique_ptr<Crew>()>& make) {
  std::unique_ptr<Crew> crew;
  try {
    pin(processors);
    crew = make();
  } catch (...) {
    auto failed = std::make_unique<FailedCrew>();
    failed->error = std::current_exception();
    crew = std::move(failed);
  }
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (Queue* queue = choose(Clock::now())) {
      lock.unlock();
      // What cannot begin waits for the others, whose turn comes next.
      advance(*crew, *queue);
      lock.lock();
      continue;
    }
    const auto none = Clock::time_point::max();
    Clock::time_point next = none;
    for (const Queue& queue : queues_) {
      if (!queue.jobs.empty()) next = std::min(next, queue.jobs.front()->not_before);
    }
    if (next == none) {
      posted_.wait(lock);
    } else {
      posted_.wait_until(lock, next);
    }
  }
}

}  // namespace kvlane::live
