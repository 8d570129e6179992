#include "sim/serving/decode_instance.h"

#include <algorithm>

#include "sim/base/check.h"
#include "sim/serving/decode_state.h"

namespace kvlane {

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
    env_.transport.post(spec, kNoCompletion);
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
    const auto whole_layer = [&](std::size_t l) {
      loads_[l]->layer = l;
      loads_[l]->ready.add();
      iterate_layer_load(scope, *loads_[l]);
    };

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
      if (l == 0 && !layer_selects(0)) whole_layer(0);
      // A layer that is read whole needs no selection: its rows come while the one before it runs.
      if (l + 1 < layers && !layer_selects(l + 1)) whole_layer(l + 1);
      if (layer_selects(l) && (!ahead || l == 0)) {
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
      Work attention = run(WorkKind::decode_attention, l);
      if (settings.kv_bits != 2) attention.kv_bits = 16;  // dequantised, if it was ever less
      co_await Completion{post(attention)};
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
    const auto ranks = static_cast<std::int64_t>(worker_.gpus.size());
    for (const GpuId gpu : worker_.gpus) {
      if (bytes == 0) break;
      CopySpec spec;
      spec.direction = CopyDirection::device_to_host;
      spec.gpu = gpu;
      spec.bytes = running_.front()->plan.transfer.wire_bytes(Bytes(bytes / ranks));
      spec.iteration = iteration_;
      env_.compute.copy(spec, kNoCompletion);
    }
  }
  std::vector<Sequence*> still;
  for (Sequence* sequence : running_) {
    const RequestId id = sequence->plan.id;
    const auto step = static_cast<std::int32_t>(sequence->step);
    env_.mark(TraceKind::selection, id, step, LayerId(), sequence->selected_rows,
              Bytes(sequence->remote_selected));
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
        env_.transport.post(spec, kNoCompletion);
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
    case MessageKind::rows_arrived: {
      const auto slot = static_cast<std::uint32_t>(message.cookie);
      KVLANE_CHECK(slot < fetches_.size() && fetches_[slot] != nullptr, "rows that nobody wants");
      fetches_[slot]->arrived.set();
      return;
    }
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
