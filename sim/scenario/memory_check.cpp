#include "sim/scenario/memory_check.h"

#include <algorithm>
#include <cmath>

#include "sim/kv/payload.h"

namespace kvlane {

namespace {

double gigabytes(double bytes) { return bytes / 1e9; }

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

struct Batch {  // the longest requests, as many as one worker or instance holds
  std::int64_t requests = 0;
  std::int64_t tokens = 0;
};

class MemoryCheck {
 public:
  MemoryCheck(const YamlNode& root, const Scenario& s) : root_(root), s_(s) {
    for (const Prompt& p : s.prompts) {
      requests_ += p.count;
      longest_ = std::max(longest_, p.tokens);
    }
    for (const InstanceGroup& g : s.instances) {
      instances_[g.role == Role::decode] += g.count;
      workers_[g.role == Role::decode] += g.count * (g.gpus / g.tp);
    }
    for (std::size_t l = 0; l < s.model.layers.size(); ++l) {
      ModelSpec one = s.model;
      one.layers = {s.model.layers[l]};
      layers_.push_back(std::move(one));
    }
  }

  void run() const {
    for (std::size_t i = 0; i < s_.instances.size(); ++i)
      for (const StrategyOptions& strategy : s_.strategies) {
        check_gpu(i, strategy);
        check_host(i, strategy);
      }
  }

 private:
  bool as_full() const { return s_.serving.sliding_window == SlidingWindow::as_full; }
  KvPlacement placement(const StrategyOptions& o) const {
    return o.kv_placement.value_or(s_.serving.kv_placement);
  }
  // KV is kept as it arrives; fp8 and int4 are counted at full width, which is on the safe side of
  // the row being dequantised.
  double stored_share(const StrategyOptions& o, std::int64_t tokens) const {
    return o.payload == Payload::hack2 ? hack_share(tokens, o.hack_partition) : 1.0;
  }
  double request_kv(std::int64_t tokens) const {
    return static_cast<double>(kv_bytes(s_.model, tokens, as_full()).count());
  }
  // What stays on the GPU when KV is offloaded: dense layers, windows and states whole; of the
  // others two layers' selected rows, one attended and one on its way.
  double offloaded_working_kv(const StrategyOptions& o, std::int64_t tokens) const {
    double whole = 0;
    double largest = 0;
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      const auto bytes = static_cast<double>(kv_bytes(layers_[l], tokens, as_full()).count());
      const AttentionKind kind = s_.model.layers[l].attention;
      const bool selects = static_cast<std::int64_t>(l) >= s_.serving.dense_layers &&
                           (kind == AttentionKind::full || kind == AttentionKind::latent ||
                            (kind == AttentionKind::windowed && as_full()));
      if (selects)
        largest = std::max(largest, bytes);
      else
        whole += bytes;
    }
    const double share = o.policy == PolicyKind::full_dense ? 1.0 : s_.selection.cap;
    return whole + 2 * share * largest;
  }
  // Latent KV is the same on every rank; other kinds divide.
  double rank_share(const InstanceGroup& g) const {
    const bool latent =
        std::any_of(s_.model.layers.begin(), s_.model.layers.end(),
                    [](const LayerSpec& l) { return l.attention == AttentionKind::latent; });
    return latent ? 1.0 : 1.0 / g.tp;
  }

  void check_gpu(std::size_t i, const StrategyOptions& strategy) const {
    const InstanceGroup& group = s_.instances[i];
    if (group.gpu.memory.count() == 0) return;
    const bool decode = group.role == Role::decode;
    // Prefill computes one prompt a worker at a time; decode holds its share of the batch.
    const std::int64_t held = decode ? ceil_div(requests_, workers_[1]) : 1;
    const std::int64_t tokens = decode ? longest_ + s_.output_tokens : longest_;
    const double one = placement(strategy) == KvPlacement::gpu
                           ? request_kv(tokens) * (decode ? stored_share(strategy, tokens) : 1.0)
                           : offloaded_working_kv(strategy, tokens);
    const double kv = static_cast<double>(held) * one * rank_share(group);
    const double weights =
        static_cast<double>(parameter_count(s_.model)) * s_.model.weight_bytes / group.tp;
    const double need = weights + kv + static_cast<double>(kGpuReserveBytes);
    if (need <= static_cast<double>(group.gpu.memory.count())) return;
    throw InputError(
        node_at(root_, {"instances", i, "gpu"}).place,
        fmt::format("{} needs {:.1f} GB of GPU memory in strategy {}: {:.1f} weights of {}, {:.1f} "
                    "KV of {} x {} tokens on the {}, {:.1f} reserve",
                    group.name, gigabytes(need), strategy.name, gigabytes(weights), s_.model.name,
                    gigabytes(kv), held, tokens,
                    placement(strategy) == KvPlacement::gpu ? "GPU" : "way through it",
                    gigabytes(static_cast<double>(kGpuReserveBytes))),
        fmt::format("expected at most the {:.1f} GB of {} (tp {})",
                    gigabytes(static_cast<double>(group.gpu.memory.count())), group.gpu.name,
                    group.tp));
  }

  void check_host(std::size_t i, const StrategyOptions& strategy) const {
    const InstanceGroup& group = s_.instances[i];
    if (group.host_memory.count() == 0 || placement(strategy) != KvPlacement::host) return;
    const bool decode = group.role == Role::decode;
    const std::int64_t held = ceil_div(requests_, instances_[decode]);
    const std::int64_t tokens = decode ? longest_ + s_.output_tokens : longest_;
    const double need = static_cast<double>(held) * request_kv(tokens);
    if (need <= static_cast<double>(group.host_memory.count())) return;
    throw InputError(
        node_at(root_, {"instances", i, "host_memory"}).place,
        fmt::format("{} needs {:.1f} GB of host memory in strategy {}: {} x {} tokens of {:.0f} B",
                    group.name, gigabytes(need), strategy.name, held, tokens,
                    request_kv(tokens) / static_cast<double>(tokens)),
        fmt::format("expected at most the {:.1f} GB of the instance",
                    gigabytes(static_cast<double>(group.host_memory.count()))));
  }

  const YamlNode& root_;
  const Scenario& s_;
  std::int64_t requests_ = 0;
  std::int64_t longest_ = 0;
  std::int64_t instances_[2] = {0, 0};  // prefill, decode
  std::int64_t workers_[2] = {0, 0};
  std::vector<ModelSpec> layers_;  // one model a layer
};

}  // namespace

void check_memory(const YamlNode& root, const Scenario& scenario) {
  MemoryCheck(root, scenario).run();
}

}  // namespace kvlane
