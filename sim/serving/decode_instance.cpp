#include "sim/serving/decode_instance.h"

#include <algorithm>

#include "sim/base/check.h"

namespace kvlane {

struct DecodeInstance::Sequence {
  Sequence(const RequestPlan& p, EndpointId from)
      : plan(p), source(from), mask(*p.transfer.layout) {}
  const RequestPlan& plan;
  EndpointId source;
  KvMask mask;
  std::unique_ptr<TransferPolicy> policy;
  std::vector<PolicyAction> actions;    // scratch
  std::vector<BlockRun> fetched_whole;  // blocks completed by fetching since the last idle signal
  std::int64_t step = 0;                // decode steps done
  std::int32_t tokens = 0;              // emitted here or, the first, at the prefill side
  std::int64_t selected_rows = 0;       // of this iteration, layers that select
  std::int64_t remote_selected = 0;
  bool all_local_said = false;
};

// Everything that one layer of the current iteration must have before its attention.
struct DecodeInstance::LayerLoad {
  explicit LayerLoad(EventLoop& loop) : ready(loop) {}
  std::size_t layer = 0;
  std::int64_t attended = 0;         // (row, kv head) pairs over the batch
  std::int64_t local_rows = 0;       // to load over PCIe
  std::vector<std::int64_t> remote;  // rows by source
  std::vector<std::int64_t> remote_sequences;
  std::vector<RequestId> remote_first;  // a request of each source, names the worker in messages
  WaitGroup ready;
};

struct DecodeInstance::Fetch {
  explicit Fetch(EventLoop& loop) : arrived(loop) {}
  Signal arrived;
};

DecodeInstance::DecodeInstance(Environment& environment, EndpointId self, Worker worker)
    : env_(environment), self_(self), worker_(std::move(worker)), wake_(environment.loop) {
  sequences_.resize(env_.requests.size());
  serve(env_.tasks);
}

DecodeInstance::~DecodeInstance() = default;

void DecodeInstance::expect(RequestId request, EndpointId prefill) {
  const RequestPlan& plan = env_.request(request);
  auto sequence = std::make_unique<Sequence>(plan, prefill);
  if (prefill.is_valid()) {
    sequence->policy = env_.policy(plan, PolicySide::decode);
    if (std::find(sources_.begin(), sources_.end(), prefill) == sources_.end()) {
      sources_.push_back(prefill);
    }
  }
  sequences_[request.index()] = std::move(sequence);
  ++expected_;
}

void DecodeInstance::join(RequestId request) {
  Sequence& sequence = *sequences_[request.index()];
  const KvLayout& layout = *sequence.plan.transfer.layout;
  for (std::size_t l = 0; l < static_cast<std::size_t>(layout.layer_count()); ++l) {
    const LayerLayout& layer = layout.layer(l);
    for (std::int64_t b = 0; b < layer.block_count; ++b) {
      sequence.mask.mark_local(l, layer.first_block + b);
    }
  }
  env_.mark(TraceKind::mandatory_arrived, request);
  ready_.push_back(&sequence);
  wake_.set();
}

bool DecodeInstance::layer_selects(std::size_t layer) const {
  const Sequence& first = *running_.front();
  return first.plan.demand != nullptr && first.plan.demand->selects(layer);
}

Work DecodeInstance::work(WorkKind kind, std::size_t layer) const {
  Work work;
  work.kind = kind;
  work.layer = LayerId(layer);
  work.batch = static_cast<std::int64_t>(running_.size());
  work.new_tokens = work.batch;
  work.kv_bits = env_.settings.kv_bits;
  work.partition = env_.settings.hack_partition;
  work.iteration = iteration_;
  return work;
}

void DecodeInstance::post_copy(CopyDirection direction, Bytes bytes, std::size_t layer,
                               WaitGroup& group) {
  const auto parts = static_cast<std::int64_t>(worker_.gpus.size());
  for (const GpuId gpu : worker_.gpus) {
    CopySpec spec;
    spec.direction = direction;
    spec.gpu = gpu;
    spec.bytes = Bytes((bytes.count() + parts - 1) / parts);
    spec.layer = LayerId(layer);
    spec.iteration = iteration_;
    group.add();
    env_.compute.copy(spec, group.done_callback());
  }
}

// The selected rows of this layer and step that are not here, over the kv heads; the ones that will
// be kept are entered in the mask, since they arrive before any later split looks at it.
std::int64_t DecodeInstance::remote_rows(Sequence& sequence, std::size_t l) {
  KvMask& mask = sequence.mask;
  if (mask.layer_local(l)) return 0;
  const Demand& demand = *sequence.plan.demand;
  std::int64_t remote = 0;
  if (sequence.plan.transfer.options->keep_fetched) {
    for (const BlockCount& fresh : demand.first_selected(l, sequence.step)) {
      if (mask.is_local(l, fresh.block)) continue;
      remote += fresh.rows;
      if (mask.add_fetched_rows(l, fresh.block, fresh.rows)) {
        sequence.fetched_whole.push_back({static_cast<std::uint32_t>(l), fresh.block, 1});
      }
    }
    return remote;
  }
  const std::span<const std::uint32_t> counts = demand.counts(l, sequence.step);
  const LayerLayout& layer = sequence.plan.transfer.layout->layer(l);
  for (std::int64_t b = layer.first_block; b < layer.first_block + layer.block_count; ++b) {
    if (!mask.is_local(l, b)) remote += counts[static_cast<std::size_t>(b)];
  }
  return remote;
}

// Step 3: what the attention of a layer reads, and where it lies.
void DecodeInstance::split(LayerLoad& load) {
  const std::size_t l = load.layer;
  load.attended = 0;
  load.local_rows = 0;
  load.remote.assign(sources_.size(), 0);
  load.remote_sequences.assign(sources_.size(), 0);
  load.remote_first.assign(sources_.size(), RequestId());
  for (Sequence* sequence : running_) {
    const LayerLayout& layer = sequence->plan.transfer.layout->layer(l);
    if (sequence->plan.demand == nullptr || !sequence->plan.demand->selects(l)) {
      std::int64_t tokens = layer.tokens + (layer.row_bytes > 0 ? sequence->step + 1 : 0);
      if (layer.attention == AttentionKind::windowed) tokens = std::min(tokens, layer.tokens);
      load.attended += tokens * layer.kv_heads;
      // Dense layers stay in GPU memory; others, attended to as a whole, come from where KV lies.
      if (!layer.dense) load.local_rows += tokens * layer.kv_heads;
      continue;
    }
    const Demand& demand = *sequence->plan.demand;
    const std::int64_t attended = demand.attended(l, sequence->step);
    const std::int64_t remote = remote_rows(*sequence, l);
    load.attended += attended;
    load.local_rows += attended - remote;
    sequence->selected_rows += demand.selected(l, sequence->step);
    sequence->remote_selected += remote;
    if (remote > 0) {
      const auto at = static_cast<std::size_t>(
          std::find(sources_.begin(), sources_.end(), sequence->source) - sources_.begin());
      load.remote[at] += remote;
      ++load.remote_sequences[at];
      if (!load.remote_first[at].is_valid()) load.remote_first[at] = sequence->plan.id;
    }
  }
  if (env_.settings.placement == KvPlacement::gpu) load.local_rows = 0;
}

// Step 4: rows are collected in host memory, then cross PCIe.
Task DecodeInstance::load_local(TaskScope&, LayerLoad& load) {
  const TransferPlan& transfer = running_.front()->plan.transfer;
  const Bytes bytes =
      transfer.wire_bytes(Bytes(load.local_rows * transfer.layout->layer(load.layer).row_bytes));
  if (!env_.settings.free_gather) {
    Work gather = work(WorkKind::gather_host, load.layer);
    gather.bytes = bytes;
    co_await Completion{
        [&](Callback done) { env_.compute.post(gpu(), Stream::side, gather, done); }};
  }
  WaitGroup copies(env_.loop);
  post_copy(CopyDirection::host_to_device, bytes, load.layer, copies);
  co_await copies.wait();
  load.ready.done();
}

// Step 5: the index of the remote rows goes out, the rows come back.
Task DecodeInstance::fetch_remote(TaskScope&, LayerLoad& load, std::size_t at) {
  const TransferPlan& transfer = running_.front()->plan.transfer;
  const StrategyOptions& options = *transfer.options;
  const std::int64_t rows = load.remote[at];
  const std::size_t l = load.layer;
  const LayerLayout& layer = transfer.layout->layer(l);
  const Bytes bytes = transfer.wire_bytes(Bytes(rows * layer.row_bytes));
  const EndpointId source = sources_[at];
  TransferSpec spec;
  spec.poster = self_;
  spec.peer = source;
  spec.local_gpu = gpu();
  spec.remote_gpu = gpu();
  if (options.on_demand_via == OnDemandVia::send) {
    Fetch fetch(env_.loop);
    const auto slot = static_cast<std::size_t>(
        std::find(fetches_.begin(), fetches_.end(), nullptr) - fetches_.begin());
    if (slot == fetches_.size()) fetches_.push_back(nullptr);
    fetches_[slot] = &fetch;
    spec.op = TransferOp::send;
    spec.lane = Lane::control;
    spec.local_memory = MemoryKind::host;
    spec.bytes = Bytes(kControlBytes + rows * kIndexEntryBytes);
    spec.message.kind = MessageKind::rows_wanted;
    spec.message.request = load.remote_first[at];
    spec.message.layer = LayerId(l);
    spec.message.iteration = iteration_;
    spec.message.rows = rows;
    spec.message.cookie = (static_cast<std::uint64_t>(load.remote_sequences[at]) << 32U) | slot;
    env_.transport.post(spec, {[](void*, std::uint64_t status) {
                                 KVLANE_CHECK(status == 0, "sending an index failed");
                               },
                               nullptr, 0});
    co_await fetch.arrived;
    fetches_[slot] = nullptr;
  } else {
    // One-sided: every row is a piece of its own at the prefill side.
    spec.op = TransferOp::read;
    spec.lane = Lane::on_demand;
    spec.local_memory = env_.settings.gpu_direct ? MemoryKind::gpu : MemoryKind::host;
    spec.bytes = bytes;
    spec.segments = rows;
    spec.targets = rows;
    co_await Completion{[&](Callback done) { env_.transport.post(spec, done); }};
  }
  if (env_.settings.gpu_direct) {
    // Rows that are kept go back to host memory, beside everything else.
    if (options.keep_fetched && env_.settings.placement == KvPlacement::host) {
      for (const GpuId gpu_id : worker_.gpus) {
        CopySpec back;
        back.direction = CopyDirection::device_to_host;
        back.gpu = gpu_id;
        back.bytes = Bytes(bytes.count() / static_cast<std::int64_t>(worker_.gpus.size()));
        back.layer = LayerId(l);
        back.iteration = iteration_;
        env_.compute.copy(back, {[](void*, std::uint64_t) {}, nullptr, 0});
      }
    }
  } else {
    WaitGroup copies(env_.loop);
    post_copy(CopyDirection::host_to_device, bytes, l, copies);
    co_await copies.wait();
  }
  load.ready.done();
}

// Steps 3 to 5 of one layer. `load.ready` counts this task itself until it ends.
Task DecodeInstance::iterate_layer_load(TaskScope& scope, LayerLoad& load) {
  split(load);
  const OnDemand order = running_.front()->plan.transfer.options->on_demand;
  if (order == OnDemand::serial) {
    WaitGroup& all = load.ready;
    LayerLoad remote_only(env_.loop);
    remote_only.layer = load.layer;
    remote_only.remote = load.remote;
    remote_only.remote_sequences = load.remote_sequences;
    remote_only.remote_first = load.remote_first;
    for (std::size_t at = 0; at < sources_.size(); ++at) {
      if (load.remote[at] == 0) continue;
      remote_only.ready.add();
      fetch_remote(scope, remote_only, at);
    }
    co_await remote_only.ready.wait();
    if (load.local_rows > 0) {
      all.add();
      load_local(scope, load);
    }
  } else {
    for (std::size_t at = 0; at < sources_.size(); ++at) {
      if (load.remote[at] == 0) continue;
      load.ready.add();
      fetch_remote(scope, load, at);
    }
    if (load.local_rows > 0) {
      load.ready.add();
      load_local(scope, load);
    }
  }
  load.ready.done();
}

// InfiniGen: layer l's rows are chosen from layer l - 1's input, on the side stream.
Task DecodeInstance::select_ahead(TaskScope& scope, LayerLoad& load) {
  Work select = work(WorkKind::select, load.layer);
  select.selector_bytes = env_.settings.selector_bytes;
  select.hashed = env_.settings.selector == Selector::hata;
  for (const Sequence* sequence : running_) {
    select.context_tokens += sequence->plan.prompt_tokens + sequence->step + 1;
  }
  co_await Completion{[&](Callback done) {
    env_.compute.post(gpu(), select.hashed ? Stream::compute : Stream::side, select, done);
  }};
  iterate_layer_load(scope, load);
}

// Step 7: the link is free for background data while attention runs.
void DecodeInstance::signal_idle() {
  for (Sequence* sequence : running_) {
    const StrategyOptions& options = *sequence->plan.transfer.options;
    if (!sequence->source.is_valid() || !options.speculative ||
        (options.policy != PolicyKind::smartgen && options.policy != PolicyKind::sequential) ||
        sequence->mask.all_local()) {
      continue;
    }
    TransferSpec spec;
    spec.op = TransferOp::send;
    spec.lane = Lane::control;
    spec.poster = self_;
    spec.peer = sequence->source;
    spec.bytes = Bytes(kControlBytes);
    spec.request = sequence->plan.id;
    spec.message.kind = MessageKind::network_idle;
    spec.message.request = sequence->plan.id;
    spec.message.iteration = static_cast<std::int32_t>(sequence->step);
    spec.message.runs = sequence->fetched_whole;
    env_.transport.post(spec, {[](void*, std::uint64_t) {}, nullptr, 0});
    sequence->fetched_whole.clear();
  }
}

Task DecodeInstance::serve(TaskScope& scope) {
  const ServingSettings& settings = env_.settings;
  for (;;) {
    if (running_.empty() && ready_.empty()) {
      wake_.reset();
      co_await wake_;
      if (settings.idle_poll.count() > 0) {
        // An idle engine looks for arrivals at ticks of its own.
        const std::int64_t tick = settings.idle_poll.count();
        const std::int64_t now = env_.loop.now().time_since_epoch().count();
        const TimePoint next(Duration((now + tick - 1) / tick * tick));
        co_await Completion{[&](Callback done) { env_.loop.schedule_at(next, done); }};
      }
    }
    // Arrivals are noticed here, at the step boundary, and get their blocks.
    if (!ready_.empty()) {
      const auto joining = static_cast<std::int64_t>(ready_.size());
      std::vector<Sequence*> admitted;
      admitted.swap(ready_);
      if (settings.allocate.count() > 0) {
        co_await Completion{
            [&](Callback done) { env_.loop.schedule_after(settings.allocate * joining, done); }};
      }
      for (Sequence* sequence : admitted) {
        running_.push_back(sequence);
        env_.mark(TraceKind::joined, sequence->plan.id, iteration_);
        if (settings.first_token == FirstToken::prefill) sequence->tokens = 1;
        if (settings.first_token == FirstToken::decode_seeded) {
          sequence->tokens = 1;
          env_.mark(TraceKind::token, sequence->plan.id, 1);
        }
      }
    }
    const TransferPlan& transfer = running_.front()->plan.transfer;
    const auto layers = static_cast<std::size_t>(transfer.layout->layer_count());
    while (loads_.size() < layers) loads_.push_back(std::make_unique<LayerLoad>(env_.loop));
    const TimePoint begin = env_.loop.now();
    const auto run = [&](WorkKind kind, std::size_t layer) {
      Work w = work(kind, layer);
      if (kind == WorkKind::decode_attention) {
        w.attended_rows = loads_[layer]->attended;
        for (const Sequence* s : running_) w.context_tokens += s->plan.prompt_tokens + s->step + 1;
      }
      return w;
    };
    const auto post = [this](const Work& w) {
      return [this, w](Callback done) { env_.compute.post(gpu(), Stream::compute, w, done); };
    };
    const bool ahead = settings.selector == Selector::infinigen;

    co_await Completion{post(run(WorkKind::host_step, 0))};
    for (std::size_t l = 0; l < layers; ++l) {
      if (ahead && l + 1 < layers && layer_selects(l + 1)) {
        LayerLoad& next = *loads_[l + 1];
        next.layer = l + 1;
        next.ready.add();
        select_ahead(scope, next);
      }
      co_await Completion{post(run(WorkKind::decode_qkv, l))};
      LayerLoad& load = *loads_[l];
      if (!layer_selects(l)) {
        load.layer = l;
        load.ready.add();
        iterate_layer_load(scope, load);
      } else if (!ahead || l == 0) {
        load.layer = l;
        load.ready.add();
        select_ahead(scope, load);
      }
      co_await load.ready.wait();
      signal_idle();
      if (settings.kv_bits == 8 || settings.kv_bits == 4) {
        Work w = run(WorkKind::dequantise, l);
        w.elements = load.attended * transfer.layout->layer(l).row_bytes / 2;
        if (w.elements > 0) co_await Completion{post(w)};
      }
      co_await Completion{post(run(WorkKind::decode_attention, l))};
      co_await Completion{post(run(WorkKind::decode_ffn, l))};
    }
    co_await Completion{post(run(WorkKind::decode_head, 0))};
    TraceRecord record;
    record.kind = TraceKind::iteration;
    record.begin = begin;
    record.end = env_.loop.now();
    record.gpu = gpu();
    record.iteration = iteration_;
    record.value = static_cast<std::int64_t>(running_.size());
    env_.trace.record(record);
    finish_iteration();
  }
}

void DecodeInstance::finish_iteration() {
  // The new tokens' KV is offloaded at once, beside the next iteration.
  if (env_.settings.placement == KvPlacement::host) {
    std::int64_t bytes = 0;
    for (const Sequence* sequence : running_) {
      const KvLayout& layout = *sequence->plan.transfer.layout;
      for (std::size_t l = 0; l < static_cast<std::size_t>(layout.layer_count()); ++l) {
        if (!layout.layer(l).dense) bytes += layout.layer(l).kv_heads * layout.layer(l).row_bytes;
      }
    }
    if (bytes > 0) {
      CopySpec spec;
      spec.direction = CopyDirection::device_to_host;
      spec.gpu = gpu();
      spec.bytes = running_.front()->plan.transfer.wire_bytes(Bytes(bytes));
      spec.iteration = iteration_;
      env_.compute.copy(spec, {[](void*, std::uint64_t) {}, nullptr, 0});
    }
  }
  std::vector<Sequence*> still;
  for (Sequence* sequence : running_) {
    const RequestId id = sequence->plan.id;
    const auto step = static_cast<std::int32_t>(sequence->step);
    if (sequence->plan.demand != nullptr) {
      env_.mark(TraceKind::selection, id, step, LayerId(), sequence->selected_rows,
                Bytes(sequence->remote_selected));
    }
    sequence->selected_rows = 0;
    sequence->remote_selected = 0;
    if (!sequence->all_local_said) {
      env_.mark(TraceKind::local_blocks, id, step, LayerId(), sequence->mask.local_blocks(),
                Bytes(sequence->plan.transfer.layout->total_blocks()));
      sequence->all_local_said = sequence->mask.all_local();
    }
    ++sequence->step;
    ++sequence->tokens;
    env_.mark(TraceKind::token, id, sequence->tokens);
    if (sequence->tokens < sequence->plan.output_tokens) {
      still.push_back(sequence);
    } else {
      --expected_;
      if (sequence->source.is_valid()) {
        TransferSpec spec;
        spec.op = TransferOp::send;
        spec.lane = Lane::control;
        spec.poster = self_;
        spec.peer = sequence->source;
        spec.bytes = Bytes(kControlBytes);
        spec.request = id;
        spec.message.kind = MessageKind::release;
        spec.message.request = id;
        env_.transport.post(spec, {[](void*, std::uint64_t) {}, nullptr, 0});
      }
    }
  }
  running_.swap(still);
  ++iteration_;
}

void DecodeInstance::tell_policy(Sequence& sequence, const PolicyEvent& event) {
  sequence.actions.clear();
  sequence.policy->on_event(env_.loop.now(), event, sequence.actions);
  for (const PolicyAction& action : sequence.actions) {
    KVLANE_CHECK(std::holds_alternative<StartDecode>(action),
                 "an action of the prefill side at the decode side");
    env_.mark(TraceKind::mandatory_arrived, sequence.plan.id);
    ready_.push_back(&sequence);
    wake_.set();
  }
}

void DecodeInstance::arrived(Sequence& sequence, std::span<const BlockRun> runs,
                             LayerId metadata_of) {
  for (const BlockRun& run : runs) {
    for (std::uint32_t b = run.first; b < run.first + run.count; ++b) {
      sequence.mask.mark_local(run.layer, b);
    }
  }
  tell_policy(sequence, BlocksArrived{runs, metadata_of});
}

// What belongs in GPU memory but came to host memory crosses PCIe before it counts as arrived.
Task DecodeInstance::stage(TaskScope&, Sequence& sequence, std::vector<BlockRun> runs,
                           LayerId metadata_of, Bytes bytes) {
  WaitGroup copies(env_.loop);
  post_copy(CopyDirection::host_to_device, bytes,
            metadata_of.is_valid() ? metadata_of.index() : runs.front().layer, copies);
  co_await copies.wait();
  arrived(sequence, runs, metadata_of);
}

void DecodeInstance::on_message(EndpointId, const Message& message) {
  switch (message.kind) {
    case MessageKind::blocks_arrived: {
      Sequence& sequence = *sequences_[message.request.index()];
      const TransferPlan& transfer = sequence.plan.transfer;
      Bytes staged(0);
      if (!env_.settings.gpu_direct) {
        if (message.layer.is_valid()) staged += transfer.metadata[message.layer.index()];
        for (const BlockRun& run : message.runs) {
          if (env_.settings.placement == KvPlacement::gpu ||
              transfer.layout->layer(run.layer).dense) {
            staged += transfer.wire_bytes(run);
          }
        }
      }
      if (staged.count() > 0) {
        stage(env_.tasks, sequence, {message.runs.begin(), message.runs.end()}, message.layer,
              staged);
      } else {
        arrived(sequence, message.runs, message.layer);
      }
      return;
    }
    case MessageKind::prefill_done:
      tell_policy(*sequences_[message.request.index()], PrefillDoneHeard{message.cookie != 0});
      return;
    case MessageKind::rows_arrived:
      fetches_[static_cast<std::uint32_t>(message.cookie)]->arrived.set();
      return;
    case MessageKind::rows_wanted:
    case MessageKind::network_idle:
    case MessageKind::release:
      break;
  }
  KVLANE_CHECK(false, "a message of the prefill side at the decode side");
}

void DecodeEndpoint::on_message(EndpointId from, const Message& message) {
  for (DecodeInstance* worker : workers_) {
    if (worker->expects(message.request)) return worker->on_message(from, message);
  }
  KVLANE_CHECK(false, "no worker expects request {}", message.request.value());
}

}  // namespace kvlane
