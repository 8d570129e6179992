#include "calibrate/live/role/role_compute.h"

#include "calibrate/live/compute/cpu_compute.h"
#include "calibrate/live/compute/modeled_compute.h"
#include "sim/base/check.h"

namespace kvlane::live {

void RoleCompute::SwitchSink::record(const TraceRecord& record) {
  if (target == nullptr) return;
  TraceRecord moved = record;
  moved.begin -= shift;
  moved.end -= shift;
  target->record(moved);
}

RoleCompute::RoleCompute(WallLoop& loop, const Scenario& scenario,
                         const std::vector<std::unique_ptr<CostModel>>& models,
                         const std::vector<GpuId>& own, ComputeKind kind,
                         const LiveOptions& options)
    : loop_(loop), scenario_(scenario), models_(models) {
  if (kind == ComputeKind::modeled) return;
  kernels_ = true;
  if (kind == ComputeKind::cuda) {
    compute_ =
        options.cuda.open(loop, gpu_models(scenario, models), own, options.processors, &sink_);
    return;
  }
  KVLANE_CHECK(kind == ComputeKind::cpu, "compute {} was not chosen", to_string(kind));
  CpuComputeOptions cpu;
  cpu.threads = options.threads;
  cpu.processors = options.processors;
  compute_ = std::make_unique<CpuCompute>(loop, gpu_models(scenario, models), own, cpu, &sink_);
}

RoleCompute::~RoleCompute() = default;

void RoleCompute::begin_run(RunLoop& loop, TraceSink& trace) {
  ++run_;
  in_flight_ = 0;
  sink_.target = &trace;
  if (kernels_) {
    sink_.shift = loop.zero().time_since_epoch();
  } else {
    sink_.shift = Duration::zero();
    compute_ = std::make_unique<ModeledCompute>(loop, scenario_, models_, &sink_);
  }
}

void RoleCompute::end_run() {
  ++run_;
  in_flight_ = 0;
  sink_.target = nullptr;
  if (!kernels_) compute_.reset();
}

Callback RoleCompute::through(Callback completion) {
  if (free_.empty()) {
    slots_.push_back({this, {}, 0});
    free_.push_back(&slots_.back());
  }
  Slot& slot = *free_.back();
  free_.pop_back();
  slot.completion = completion;
  slot.run = run_;
  ++in_flight_;
  return {[](void* context, std::uint64_t argument) {
            auto& done = *static_cast<Slot*>(context);
            RoleCompute& owner = *done.owner;
            const Callback original = done.completion;
            const bool current = done.run == owner.run_;
            owner.free_.push_back(&done);
            if (!current) return;
            --owner.in_flight_;
            if (original) original.function(original.context, original.argument + argument);
          },
          &slot, 0};
}

void RoleCompute::post(GpuId gpu, Stream stream, const Work& work, Callback completion) {
  compute_->post(gpu, stream, work, through(completion));
}

void RoleCompute::copy(const CopySpec& copy, Callback completion) {
  compute_->copy(copy, through(completion));
}

Duration RoleCompute::estimate(GpuId gpu, const Work& work) const {
  return compute_->estimate(gpu, work);
}

}  // namespace kvlane::live
