// Steps 2 to 5 of a decode iteration: selection, the split of the index by the mask, local rows
// over PCIe and remote rows over the network.

#include <algorithm>

#include "sim/base/check.h"
#include "sim/kv/row_order.h"
#include "sim/serving/decode_state.h"

namespace kvlane {

void DecodeInstance::post_copy(CopyDirection direction, Bytes bytes, std::size_t layer,
                               WaitGroup& group) {
  const std::int64_t parts = ranks_of(*env_.requests.front().transfer.layout, layer, worker_);
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
std::int64_t DecodeInstance::remote_rows(Sequence& sequence, std::size_t l,
                                         std::vector<std::uint32_t>* index) {
  KvMask& mask = sequence.mask;
  if (mask.layer_local(l)) return 0;
  const Demand& demand = *sequence.plan.demand;
  const KvLayout& layout = *sequence.plan.transfer.layout;
  const LayerLayout& layer = layout.layer(l);
  const auto name = [&](std::int64_t block, std::int64_t first, std::int64_t count) {
    if (index == nullptr) return;
    const std::int64_t before = (layout.block_offset(l, block) - layer.offset) / layer.row_bytes;
    const std::int64_t rows = layout.block_rows(l, block);
    for (std::int64_t k = first; k < first + count; ++k) {
      index->push_back(static_cast<std::uint32_t>(before + row_in_block(rows, k)));
    }
  };
  std::int64_t remote = 0;
  if (sequence.plan.transfer.options->keep_fetched) {
    for (const BlockCount& fresh : demand.first_selected(l, sequence.step)) {
      if (mask.is_local(l, fresh.block)) continue;
      remote += fresh.rows;
      name(fresh.block, mask.fetched_rows(l, fresh.block), fresh.rows);
      if (mask.add_fetched_rows(l, fresh.block, fresh.rows)) {
        sequence.fetched_whole.push_back({static_cast<std::uint32_t>(l), fresh.block, 1});
      }
    }
    return remote;
  }
  const std::span<const std::uint32_t> counts = demand.counts(l, sequence.step);
  for (std::int64_t b = layer.first_block; b < layer.first_block + layer.block_count; ++b) {
    if (mask.is_local(l, b)) continue;
    remote += counts[static_cast<std::size_t>(b)];
    name(b, 0, counts[static_cast<std::size_t>(b)]);
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
  load.rows.assign(env_.moves_bytes ? sources_.size() : 0, {});
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
    const auto at = static_cast<std::size_t>(
        std::find(sources_.begin(), sources_.end(), sequence->source) - sources_.begin());
    LayerLoad::Rows* named = at < load.rows.size() ? &load.rows[at] : nullptr;
    const std::int64_t remote =
        remote_rows(*sequence, l, named != nullptr ? &named->index : nullptr);
    load.attended += attended;
    load.local_rows += attended - remote;
    sequence->selected_rows += demand.selected(l, sequence->step);
    sequence->remote_selected += remote;
    if (remote > 0) {
      load.remote[at] += remote;
      if (named != nullptr) {
        named->groups.push_back({sequence->plan.id, static_cast<std::uint32_t>(remote)});
      }
      ++load.remote_sequences[at];
      if (!load.remote_first[at].is_valid()) load.remote_first[at] = sequence->plan.id;
    }
  }
  if (env_.settings.placement == KvPlacement::gpu) load.local_rows = 0;
}

// Step 4: rows are collected in host memory, then cross PCIe.
Task DecodeInstance::load_local(TaskScope&, LayerLoad& load) {
  const TransferPlan& transfer = running_.front()->plan.transfer;
  const std::size_t l = load.layer;
  const Bytes bytes =
      transfer.wire_bytes(Bytes(load.local_rows * transfer.layout->layer(l).row_bytes));
  WaitGroup copies(env_.loop);
  // A layer that is read whole lies in one piece: nothing to collect.
  const bool scattered = layer_selects(l) && !env_.settings.free_gather;
  const std::int64_t chunks = scattered ? env_.settings.gather_chunks : 1;
  std::int64_t done = 0;
  for (std::int64_t i = 1; i <= chunks; ++i) {
    const Bytes piece(bytes.count() * i / chunks - done);
    done += piece.count();
    if (scattered) {
      Work gather = work(WorkKind::gather_host, l);
      gather.bytes = piece;
      co_await Completion{
          [&](Callback gathered) { env_.compute.post(gpu(), Stream::side, gather, gathered); }};
    }
    post_copy(CopyDirection::host_to_device, piece, l, copies);
  }
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
  // The task outlives the iteration's use of `load`: what is named stays with it.
  LayerLoad::Rows named;
  if (at < load.rows.size()) named = std::move(load.rows[at]);
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
    spec.message.groups = named.groups;
    spec.message.index = named.index;
    env_.transport.post(spec, kNoCompletion);
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
    std::vector<Fragment> pieces;
    std::span<const std::uint32_t> left = named.index;
    for (const RowGroup& group : named.groups) {
      append_row_fragments(env_.request(group.request), l, left.first(group.rows), pieces);
      left = left.subspan(group.rows);
    }
    if (!pieces.empty()) spec.bytes = bytes_of(pieces);
    spec.fragments = pieces;
    co_await Completion{[&](Callback done) { env_.transport.post(spec, done); }};
  }
  if (env_.settings.gpu_direct) {
    // Rows that are kept go back to host memory, beside everything else.
    if (options.keep_fetched && env_.settings.placement == KvPlacement::host) {
      for (const GpuId gpu_id : worker_.gpus) {
        CopySpec back;
        back.direction = CopyDirection::device_to_host;
        back.gpu = gpu_id;
        back.bytes = Bytes(bytes.count() / ranks_of(*transfer.layout, l, worker_));
        back.layer = LayerId(l);
        back.iteration = iteration_;
        env_.compute.copy(back, kNoCompletion);
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
    remote_only.rows = std::move(load.rows);
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

}  // namespace kvlane
