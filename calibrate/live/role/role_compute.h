#pragma once
// The compute of a role over many runs: kernels and their memory are made once, what waits for the
// cost model anew for each run. A completion that comes after its run has ended calls nobody.

#include <deque>
#include <memory>
#include <vector>

#include "calibrate/live/compute/kernel_compute.h"
#include "calibrate/live/loop/run_loop.h"
#include "calibrate/live/role/options.h"
#include "calibrate/live/role/records.h"
#include "sim/port/compute.h"
#include "sim/scenario/scenario.h"

namespace kvlane::live {

class RoleCompute final : public Compute {
 public:
  // `kind`: as chosen, not automatic. `own`: this process's GPUs. Throws where it cannot be had.
  RoleCompute(WallLoop& loop, const Scenario& scenario,
              const std::vector<std::unique_ptr<CostModel>>& models, const std::vector<GpuId>& own,
              ComputeKind kind, const LiveOptions& options);
  ~RoleCompute() override;

  void begin_run(RunLoop& loop, TraceSink& trace);
  void end_run();
  std::size_t in_flight() const { return in_flight_; }

  void post(GpuId gpu, Stream stream, const Work& work, Callback completion) override;
  void copy(const CopySpec& copy, Callback completion) override;
  Duration estimate(GpuId gpu, const Work& work) const override;

 private:
  struct Slot {
    RoleCompute* owner;
    Callback completion;
    std::uint64_t run = 0;
  };
  struct SwitchSink final : TraceSink {
    TraceSink* target = nullptr;
    Duration shift{0};
    void record(const TraceRecord& record) override;
  };
  Callback through(Callback completion);

  WallLoop& loop_;
  const Scenario& scenario_;
  const std::vector<std::unique_ptr<CostModel>>& models_;
  SwitchSink sink_;
  std::unique_ptr<Compute> compute_;  // kernels: of the role; modeled: of the run
  bool kernels_ = false;
  std::uint64_t run_ = 0;
  std::size_t in_flight_ = 0;  // of this run
  std::deque<Slot> slots_;
  std::vector<Slot*> free_;
};

}  // namespace kvlane::live
