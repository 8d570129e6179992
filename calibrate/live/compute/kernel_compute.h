#pragma once
// The compute port over real kernels: worker threads, completions in the loop, the trace as the
// simulator writes it with the times that were measured. Which threads there are and what they work
// with is the device's matter: cpu_compute.h, gpu/cuda_compute.h.

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "calibrate/live/compute/worker.h"
#include "calibrate/live/loop/wall_loop.h"
#include "sim/gpu/cost_model.h"

namespace kvlane::live {

class KernelCompute : public Compute, private Pollable {
 public:
  // `models`: by GpuId (gpu_models), which estimate() answers from; all outlive this. `trace` may
  // be null.
  KernelCompute(WallLoop& loop, std::vector<const CostModel*> models, TraceSink* trace);
  // Work that is queued is dropped, its completions never run.
  ~KernelCompute() override;

  // An error of a kernel or its memory is thrown from the loop, by run(). The loop is held while
  // work is under way.
  void post(GpuId gpu, Stream stream, const Work& work, Callback completion) override;
  void copy(const CopySpec& copy, Callback completion) override;
  Duration estimate(GpuId gpu, const Work& work) const override;

  // Makes the calls of a piece of work before it is first posted, and waits until they are there:
  // for the largest ones at start, since it throws std::runtime_error where they have no room.
  void prepare(GpuId gpu, const Work& work);
  // What the last `select` of the layer that has ended chose; null: there was none.
  const Selection* last_selection(GpuId gpu, LayerId layer) const;
  std::size_t outstanding() const { return outstanding_; }

 protected:
  enum class Place : std::uint8_t { compute, side, to_device, to_host, gather };
  static constexpr std::size_t kPlaces = 5;

  // A thread for some places of a GPU of this process; places in the order of their turns.
  void add_worker(GpuId gpu, const std::vector<Place>& places, std::vector<int> processors,
                  std::function<std::unique_ptr<Crew>()> make);
  const CostModel& model(GpuId gpu) const;
  std::size_t gpus() const { return models_.size(); }
  // Ends the threads: before what their crews use goes away.
  void stop();

 private:
  struct Route {
    Worker* worker = nullptr;
    std::size_t queue = 0;
  };
  void send(GpuId gpu, Place place, std::unique_ptr<Job> job);
  void ended(std::unique_ptr<Job> job);
  void on_ready(int fd, std::uint32_t epoll_events) override;
  void deliver(Job& job);
  void signal();

  WallLoop& loop_;
  std::vector<const CostModel*> models_;
  TraceSink* trace_;
  std::vector<std::array<Route, kPlaces>> routes_;  // by GPU
  std::size_t outstanding_ = 0;
  std::map<std::pair<GpuId, LayerId>, Selection> selections_;
  int event_ = -1;
  bool watched_ = false;
  std::mutex ended_mutex_;
  std::deque<std::unique_ptr<Job>> ended_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace kvlane::live
