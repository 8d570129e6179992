#include "calibrate/live/compute/kernel_compute.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <future>
#include <system_error>
#include <utility>

#include "sim/base/check.h"

namespace kvlane::live {

KernelCompute::KernelCompute(WallLoop& loop, std::vector<const CostModel*> models, TraceSink* trace)
    : loop_(loop), models_(std::move(models)), trace_(trace), routes_(models_.size()) {
  event_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (event_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
}

KernelCompute::~KernelCompute() {
  stop();
  if (watched_) loop_.unwatch(event_);
  ::close(event_);
  if (outstanding_ > 0) loop_.release();
}

void KernelCompute::stop() { workers_.clear(); }

void KernelCompute::add_worker(GpuId gpu, const std::vector<Place>& places,
                               std::vector<int> processors,
                               std::function<std::unique_ptr<Crew>()> make) {
  KVLANE_CHECK(gpu.is_valid() && gpu.index() < models_.size(), "no GPU {}", gpu.value());
  workers_.push_back(
      std::make_unique<Worker>(places.size(), std::move(processors), std::move(make),
                               [this](std::unique_ptr<Job> job) { ended(std::move(job)); }));
  for (std::size_t queue = 0; queue < places.size(); ++queue) {
    routes_[gpu.index()][static_cast<std::size_t>(places[queue])] = {workers_.back().get(), queue};
  }
}

const CostModel& KernelCompute::model(GpuId gpu) const {
  KVLANE_CHECK(gpu.is_valid() && gpu.index() < models_.size(), "no GPU {}", gpu.value());
  return *models_[gpu.index()];
}

Duration KernelCompute::estimate(GpuId gpu, const Work& work) const {
  return model(gpu).expected(work);
}

void KernelCompute::send(GpuId gpu, Place place, std::unique_ptr<Job> job) {
  KVLANE_CHECK(gpu.is_valid() && gpu.index() < models_.size(), "no GPU {}", gpu.value());
  const Route& route = routes_[gpu.index()][static_cast<std::size_t>(place)];
  KVLANE_CHECK(route.worker != nullptr, "GPU {} is not of this process", gpu.value());
  // Not when it is made: a role is built beside its running loop.
  if (!std::exchange(watched_, true)) loop_.watch(event_, EPOLLIN, *this);
  if (outstanding_++ == 0) loop_.hold();
  route.worker->post(route.queue, std::move(job));
}

void KernelCompute::post(GpuId gpu, Stream stream, const Work& work, Callback completion) {
  auto job = std::make_unique<Job>();
  job->work = work;
  job->completion = completion;
  TraceRecord& record = job->record;
  record.kind = TraceKind::compute;
  record.detail = static_cast<std::uint8_t>(work.kind);
  record.iteration = work.iteration;
  record.request = work.request;
  record.layer = work.layer;
  record.gpu = gpu;
  record.value = static_cast<std::int64_t>(stream);
  Place place = stream == Stream::compute ? Place::compute : Place::side;
  if (work.kind == WorkKind::gather_host) {
    record.bytes = work.bytes;
    model(gpu).usage().gathers = true;
    place = Place::gather;
  }
  send(gpu, place, std::move(job));
}

void KernelCompute::copy(const CopySpec& copy, Callback completion) {
  KVLANE_CHECK(copy.bytes.count() >= 0 && copy.copies >= 0, "copy of a negative size");
  auto job = std::make_unique<Job>();
  job->kind = Job::Kind::copy;
  job->copy = copy;
  job->completion = completion;
  TraceRecord& record = job->record;
  record.kind = TraceKind::copy;
  record.detail = static_cast<std::uint8_t>(copy.direction);
  record.iteration = copy.iteration;
  record.request = copy.request;
  record.layer = copy.layer;
  record.gpu = copy.gpu;
  record.bytes = copy.bytes;
  record.value = copy.copies;
  send(copy.gpu,
       copy.direction == CopyDirection::host_to_device ? Place::to_device : Place::to_host,
       std::move(job));
}

void KernelCompute::prepare(GpuId gpu, const Work& work) {
  KVLANE_CHECK(gpu.is_valid() && gpu.index() < models_.size(), "no GPU {}", gpu.value());
  if (work.kind == WorkKind::gather_host || work.kind == WorkKind::host_step) return;
  // InfiniGen looks ahead beside the layer at hand, HATA works before its own (decode_loads.cpp).
  const bool ahead = work.kind == WorkKind::select && !work.hashed;
  const Route& route =
      routes_[gpu.index()][static_cast<std::size_t>(ahead ? Place::side : Place::compute)];
  KVLANE_CHECK(route.worker != nullptr, "GPU {} is not of this process", gpu.value());
  auto job = std::make_unique<Job>();
  job->kind = Job::Kind::prepare;
  job->work = work;
  job->told = std::make_shared<std::promise<std::unique_ptr<Job>>>();
  std::future<std::unique_ptr<Job>> over = job->told->get_future();
  route.worker->post(route.queue, std::move(job));
  const std::unique_ptr<Job> prepared = over.get();
  if (prepared->error) std::rethrow_exception(prepared->error);
}

const Selection* KernelCompute::last_selection(GpuId gpu, LayerId layer) const {
  const auto found = selections_.find({gpu, layer});
  return found == selections_.end() ? nullptr : &found->second;
}

// In a worker's thread.
void KernelCompute::ended(std::unique_ptr<Job> job) {
  if (job->kind == Job::Kind::prepare) {
    const auto told = job->told;
    return told->set_value(std::move(job));
  }
  {
    const std::lock_guard lock(ended_mutex_);
    ended_.push_back(std::move(job));
  }
  signal();
}

void KernelCompute::signal() {
  const std::uint64_t one = 1;
  // It can only fail when the counter is full, and then the loop will look.
  [[maybe_unused]] const ssize_t written = ::write(event_, &one, sizeof one);
}

void KernelCompute::on_ready(int fd, std::uint32_t) {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t read = ::read(fd, &count, sizeof count);
  for (;;) {
    std::unique_ptr<Job> job;
    bool more = false;
    {
      const std::lock_guard lock(ended_mutex_);
      if (ended_.empty()) return;
      job = std::move(ended_.front());
      ended_.pop_front();
      more = !ended_.empty();
    }
    if (job->error && more) signal();  // the others are told after what this throws
    deliver(*job);
  }
}

void KernelCompute::deliver(Job& job) {
  if (--outstanding_ == 0) loop_.release();
  if (job.error) std::rethrow_exception(job.error);
  if (trace_ != nullptr) {
    const auto since_zero = [&](SteadyTime time) {
      return TimePoint(std::chrono::duration_cast<Duration>(time - loop_.zero()));
    };
    job.record.begin = since_zero(job.begin);
    job.record.end = since_zero(job.end);
    trace_->record(job.record);
  }
  if (job.selection) {
    selections_.insert_or_assign({job.record.gpu, job.work.layer}, std::move(*job.selection));
  }
  if (job.completion) job.completion();
}

}  // namespace kvlane::live
