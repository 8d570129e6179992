#include "sim/serving/prefill_instance.h"

#include <algorithm>

#include "sim/base/check.h"

namespace kvlane {

struct PrefillInstance::Job {
  RequestId request;
  EndpointId decode;
  GpuId decode_gpu;
  WorkerState* worker = nullptr;
  std::unique_ptr<TransferPolicy> policy;
  std::vector<PolicyAction> actions;                   // scratch
  std::vector<std::unique_ptr<Signal>> prefix_loaded;  // [layer]
  std::size_t handed_over = 0;

  // A write in flight: owns what the transport may read until the completion.
  struct Write {
    PrefillInstance* instance = nullptr;
    Job* job = nullptr;
    Lane lane = Lane::proactive;
    Bytes bytes{0};
    std::vector<BlockRun> runs;
    std::vector<Fragment> fragments;
  };
  std::vector<std::unique_ptr<Write>> writes;  // reused
  std::vector<Write*> free_writes;
};

struct PrefillInstance::WorkerState {
  WorkerState(Worker w, std::uint32_t n, EventLoop& loop)
      : worker(std::move(w)), number(n), wake(loop) {}
  Worker worker;
  std::uint32_t number;  // its queue pairs
  std::deque<Job*> queue;
  Signal wake;
};

PrefillInstance::PrefillInstance(Environment& environment, EndpointId self,
                                 std::vector<Worker> workers, PrefillListener& listener)
    : env_(environment), self_(self), listener_(listener) {
  for (Worker& worker : workers) {
    const auto number = static_cast<std::uint32_t>(workers_.size());
    workers_.push_back(std::make_unique<WorkerState>(std::move(worker), number, env_.loop));
  }
  jobs_.resize(env_.requests.size());
  env_.transport.set_handler(self_, this);
  for (auto& worker : workers_) work(env_.tasks, *worker);
}

PrefillInstance::~PrefillInstance() = default;

std::size_t PrefillInstance::load(std::size_t worker) const {
  return workers_[worker]->queue.size();
}

void PrefillInstance::submit(std::size_t worker, RequestId request, EndpointId decode,
                             GpuId decode_gpu) {
  auto job = std::make_unique<Job>();
  job->request = request;
  job->decode = decode;
  job->decode_gpu = decode_gpu;
  job->worker = workers_[worker].get();
  if (decode.is_valid()) job->policy = env_.policy(env_.request(request), PolicySide::prefill);
  job->worker->queue.push_back(job.get());
  jobs_[request.index()] = std::move(job);
  workers_[worker]->wake.set();
}

// A copy of `bytes` in all, an equal part over the PCIe link of each GPU of the worker.
void PrefillInstance::copy(const Worker& worker, CopyDirection direction, Bytes bytes,
                           const Job& job, std::size_t layer, WaitGroup& group) {
  const std::int64_t parts = ranks_of(*env_.request(job.request).transfer.layout, layer, worker);
  for (const GpuId gpu : worker.gpus) {
    CopySpec spec;
    spec.direction = direction;
    spec.gpu = gpu;
    spec.bytes = Bytes((bytes.count() + parts - 1) / parts);
    spec.request = job.request;
    spec.layer = LayerId(layer);
    group.add();
    env_.compute.copy(spec, group.done_callback());
  }
}

Task PrefillInstance::work(TaskScope& scope, WorkerState& worker) {
  const ServingSettings& settings = env_.settings;
  const GpuId gpu = worker.worker.gpus.front();
  for (;;) {
    while (worker.queue.empty()) {
      worker.wake.reset();
      co_await worker.wake;
    }
    Job& job = *worker.queue.front();
    const RequestPlan& plan = env_.request(job.request);
    const KvLayout& layout = *plan.transfer.layout;
    const auto layers = static_cast<std::size_t>(layout.layer_count());
    const std::int64_t cached = plan.transfer.cached_tokens;
    const std::int64_t fresh = plan.prompt_tokens - cached;

    Work layer_work;
    layer_work.kind = WorkKind::prefill_layer;
    layer_work.batch = 1;
    layer_work.new_tokens = fresh;
    layer_work.context_tokens = plan.prompt_tokens;
    layer_work.request = job.request;

    PrefillStarted started;
    for (std::size_t l = 0; l < layers; ++l) {
      layer_work.layer = LayerId(l);
      started.prefill += env_.compute.estimate(gpu, layer_work);
    }
    started.bandwidth = listener_.prefill_starts(job.request);
    env_.mark(TraceKind::prefill_started, job.request);
    tell_policy(job, started);

    // The cached prefix of layer l loads while layer l - 1 computes.
    const bool load_prefix = settings.prefix_location == PrefixLocation::host && cached > 0;
    std::vector<std::unique_ptr<WaitGroup>> loads;
    const auto load = [&](std::size_t l) {
      loads.push_back(std::make_unique<WaitGroup>(env_.loop));
      const LayerLayout& layer = layout.layer(l);
      const std::int64_t tokens = std::max<std::int64_t>(0, cached - layer.first_token);
      const Bytes bytes(tokens * layer.kv_heads * layer.row_bytes);
      if (load_prefix && bytes.count() > 0) {
        copy(worker.worker, CopyDirection::host_to_device, plan.transfer.wire_bytes(bytes), job, l,
             *loads.back());
      }
    };
    load(0);
    for (std::size_t l = 0; l < layers; ++l) {
      co_await loads[l]->wait();
      if (l + 1 < layers) load(l + 1);
      layer_work.layer = LayerId(l);
      co_await Completion{
          [&](Callback done) { env_.compute.post(gpu, Stream::compute, layer_work, done); }};
      Work extra = layer_work;
      if (plan.transfer.metadata[l].count() > 0) {
        extra.kind = WorkKind::build_metadata;
        extra.selector_bytes = settings.selector_bytes;
        extra.hashed = settings.selector == Selector::hata;
        co_await Completion{
            [&](Callback done) { env_.compute.post(gpu, Stream::compute, extra, done); }};
      }
      const LayerLayout& layer = layout.layer(l);
      if (settings.kv_bits != 16 && layer.row_bytes > 0) {
        extra.kind = WorkKind::quantise;
        extra.kv_bits = settings.kv_bits;
        extra.elements = fresh * layer.kv_heads * layer.row_bytes / 2;
        co_await Completion{
            [&](Callback done) { env_.compute.post(gpu, Stream::compute, extra, done); }};
      }
      offload(scope, job, l);
    }
    Work head;
    head.kind = WorkKind::prefill_head;
    head.batch = 1;
    head.request = job.request;
    co_await Completion{
        [&](Callback done) { env_.compute.post(gpu, Stream::compute, head, done); }};
    env_.mark(TraceKind::prefill_finished, job.request);
    if (settings.first_token == FirstToken::prefill) env_.mark(TraceKind::token, job.request, 1);
    tell_policy(job, PrefillFinished{});
    worker.queue.pop_front();
    listener_.prefill_ended(job.request);
  }
}

// Step 4 and 5: the new tokens' KV goes to host memory, then the layer is the policy's.
Task PrefillInstance::offload(TaskScope&, Job& job, std::size_t l) {
  const RequestPlan& plan = env_.request(job.request);
  const LayerLayout& layer = plan.transfer.layout->layer(l);
  if (env_.settings.placement == KvPlacement::host || !env_.settings.gpu_direct) {
    const std::int64_t first_new = std::max(plan.transfer.cached_tokens, layer.first_token);
    Bytes bytes((plan.prompt_tokens - first_new) * layer.kv_heads * layer.row_bytes);
    if (layer.block_count == 0) bytes = layer.bytes;  // a recurrent state
    bytes = plan.transfer.wire_bytes(bytes);
    // Selection metadata is made on the GPU; without GPUDirect it leaves by way of the host too.
    if (!env_.settings.gpu_direct) bytes += plan.transfer.metadata[l];
    if (bytes.count() > 0) {
      WaitGroup group(env_.loop);
      copy(job.worker->worker, CopyDirection::device_to_host, bytes, job, l, group);
      co_await group.wait();
    }
  }
  env_.mark(TraceKind::layer_handed_over, job.request, -1, LayerId(l));
  ++job.handed_over;
  tell_policy(job, LayerHandedOver{LayerId(l)});
}

void PrefillInstance::tell_policy(Job& job, const PolicyEvent& event) {
  if (!job.policy) return;
  job.actions.clear();
  job.policy->on_event(env_.loop.now(), event, job.actions);
  // Carrying out an action never calls the policy: completions come from the loop.
  for (const PolicyAction& action : job.actions) {
    if (const auto* blocks = std::get_if<WriteBlocks>(&action)) {
      write(job, *blocks);
    } else if (const auto* metadata = std::get_if<WriteMetadata>(&action)) {
      write(job, *metadata);
    } else if (const auto* done = std::get_if<AnnounceDone>(&action)) {
      if (done->wait_for_all && env_.request(job.request).transfer.options->auto_switch) {
        env_.mark(TraceKind::switched_to_full, job.request);
      }
      announce(env_.tasks, job, done->wait_for_all);
    } else {
      KVLANE_CHECK(false, "an action of the decode side at the prefill side");
    }
  }
}

void PrefillInstance::write(Job& job, const WriteBlocks& action) {
  const RequestPlan& plan = env_.request(job.request);
  if (job.free_writes.empty()) {
    job.writes.push_back(std::make_unique<Job::Write>());
    job.free_writes.push_back(job.writes.back().get());
  }
  Job::Write& write = *job.free_writes.back();
  job.free_writes.pop_back();
  write.instance = this;
  write.job = &job;
  write.lane = action.lane;
  write.bytes = action.bytes;
  write.runs = action.runs;
  write.fragments.clear();
  append_block_fragments(plan, write.runs, write.fragments);
  Bytes mask{0};  // one byte a (layer, token)
  for (const BlockRun& run : write.runs) {
    if (run.count == 0) continue;
    const KvLayout& layout = *plan.transfer.layout;
    const std::int64_t begin = layout.block_offset(run.layer, run.first);
    const std::int64_t last = run.first + run.count - 1;
    const std::int64_t length =
        layout.block_offset(run.layer, last) + layout.block_bytes(run.layer, last).count() - begin;
    const LayerLayout& layer = layout.layer(run.layer);
    // A recurrent state has no rows to mask.
    if (layer.row_bytes > 0) mask += Bytes(length / (layer.kv_heads * layer.row_bytes));
  }
  TransferSpec spec;
  spec.mask = mask;
  spec.op = TransferOp::write_with_imm;
  spec.lane = action.lane;
  spec.poster = self_;
  spec.peer = job.decode;
  spec.queue = job.worker->number;
  const bool in_gpu = env_.settings.placement == KvPlacement::gpu;
  spec.local_memory = in_gpu && env_.settings.gpu_direct ? MemoryKind::gpu : MemoryKind::host;
  const bool dense = plan.transfer.layout->layer(write.runs.front().layer).dense;
  spec.remote_memory =
      (in_gpu || dense) && env_.settings.gpu_direct ? MemoryKind::gpu : MemoryKind::host;
  spec.local_gpu = job.worker->worker.gpus.front();
  spec.remote_gpu = job.decode_gpu;
  spec.bytes = action.bytes;
  spec.segments = std::max<std::int64_t>(1, static_cast<std::int64_t>(write.fragments.size())) *
                  env_.settings.shards;
  spec.targets = spec.segments;
  spec.fragments = write.fragments;
  spec.request = job.request;
  spec.message.kind = MessageKind::blocks_arrived;
  spec.message.request = job.request;
  spec.message.runs = write.runs;
  env_.transport.post(spec,
                      {[](void* context, std::uint64_t status) {
                         auto& done = *static_cast<Job::Write*>(context);
                         if (status != 0) return;  // the world ends the run and says why
                         Job& owner = *done.job;
                         owner.free_writes.push_back(&done);
                         done.instance->tell_policy(owner, WriteCompleted{done.lane, done.bytes});
                       },
                       &write, 0});
}

void PrefillInstance::write(Job& job, const WriteMetadata& action) {
  TransferSpec spec;
  spec.op = TransferOp::write_with_imm;
  spec.lane = Lane::proactive;
  spec.poster = self_;
  spec.peer = job.decode;
  spec.queue = job.worker->number;
  spec.local_gpu = job.worker->worker.gpus.front();
  spec.remote_gpu = job.decode_gpu;
  spec.local_memory = env_.settings.gpu_direct ? MemoryKind::gpu : MemoryKind::host;
  spec.remote_memory = env_.settings.gpu_direct ? MemoryKind::gpu : MemoryKind::host;
  spec.bytes = action.bytes;
  const RequestPlan& plan = env_.request(job.request);
  const Fragment piece{plan.region, plan.metadata_offset[action.layer.index()],
                       action.bytes.count()};
  spec.fragments = {&piece, 1};
  spec.metadata = true;
  spec.request = job.request;
  spec.message.kind = MessageKind::blocks_arrived;
  spec.message.request = job.request;
  spec.message.layer = action.layer;
  env_.transport.post(spec, kNoCompletion);
}

Task PrefillInstance::announce(TaskScope&, Job& job, bool wait_for_all) {
  if (env_.settings.router_hop.count() > 0) {
    co_await Completion{
        [&](Callback done) { env_.loop.schedule_after(env_.settings.router_hop, done); }};
  }
  TransferSpec spec;
  spec.op = TransferOp::send;
  spec.lane = Lane::control;
  spec.poster = self_;
  spec.peer = job.decode;
  spec.queue = job.worker->number;
  spec.bytes = Bytes(kControlBytes);
  spec.request = job.request;
  spec.message.kind = MessageKind::prefill_done;
  spec.message.request = job.request;
  spec.message.cookie = wait_for_all ? 1 : 0;
  env_.transport.post(spec, kNoCompletion);
}

// Step 5 of a decode iteration, at this side: the wanted rows are gathered in host memory and sent.
Task PrefillInstance::answer(TaskScope&, EndpointId decode, Message wanted) {
  // What the message points to is gone at the first suspension.
  std::vector<RowGroup> groups(wanted.groups.begin(), wanted.groups.end());
  std::vector<std::uint32_t> index(wanted.index.begin(), wanted.index.end());
  wanted.groups = groups;
  wanted.index = index;
  const Job* job = jobs_[wanted.request.index()].get();
  KVLANE_CHECK(job != nullptr, "rows wanted of request {}", wanted.request.value());
  const RequestPlan& plan = env_.request(job->request);
  const LayerLayout& layer = plan.transfer.layout->layer(wanted.layer.index());
  const Bytes bytes = plan.transfer.wire_bytes(Bytes(wanted.rows * layer.row_bytes));
  if (!env_.settings.free_gather) {
    Work gather;
    gather.kind = WorkKind::gather_host;
    gather.layer = wanted.layer;
    gather.bytes = bytes;
    gather.iteration = wanted.iteration;
    co_await Completion{[&](Callback done) {
      env_.compute.post(job->worker->worker.gpus.front(), Stream::side, gather, done);
    }};
  }
  TransferSpec spec;
  spec.op = TransferOp::send;
  spec.lane = Lane::on_demand;
  spec.poster = self_;
  spec.peer = decode;
  spec.remote_memory = env_.settings.gpu_direct ? MemoryKind::gpu : MemoryKind::host;
  spec.remote_gpu = job->decode_gpu;
  spec.bytes = bytes;
  std::vector<Fragment> pieces;
  std::span<const std::uint32_t> left = index;
  for (const RowGroup& group : groups) {
    append_row_fragments(env_.request(group.request), wanted.layer.index(), left.first(group.rows),
                         pieces);
    left = left.subspan(group.rows);
  }
  if (!pieces.empty()) spec.bytes = bytes_of(pieces);
  spec.fragments = pieces;
  // One contiguous run a (sequence, kv head) row: `cookie`'s upper half counts the sequences.
  spec.segments = static_cast<std::int64_t>(wanted.cookie >> 32U) * layer.kv_heads;
  spec.targets = spec.segments;
  spec.message = wanted;
  spec.message.kind = MessageKind::rows_arrived;
  env_.transport.post(spec, kNoCompletion);
}

void PrefillInstance::on_message(EndpointId from, const Message& message) {
  switch (message.kind) {
    case MessageKind::rows_wanted:
      answer(env_.tasks, from, message);
      return;
    case MessageKind::network_idle: {
      KVLANE_CHECK(jobs_[message.request.index()] != nullptr, "request {} is not of this instance",
                   message.request.value());
      Job& job = *jobs_[message.request.index()];
      if (!message.runs.empty()) tell_policy(job, BlocksFetched{message.runs});
      tell_policy(job, NetworkIdle{message.iteration});
      return;
    }
    case MessageKind::release:
      env_.mark(TraceKind::released, message.request);
      return;
    case MessageKind::blocks_arrived:
    case MessageKind::prefill_done:
    case MessageKind::rows_arrived:
      break;
  }
  KVLANE_CHECK(false, "a message of the decode side at the prefill side");
}

}  // namespace kvlane
