#pragma once
// A scenario of round numbers, built without a file: a layer of a prompt of 1000 tokens is 1 MB and
// takes 1 ms at 8 Gbit/s. GPUs cost what a test asks for and nothing else: every kernel that is not
// named takes the shortest time there is, 1 ps.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/run/strategy_run.h"

namespace kvlane::test {

inline constexpr std::int64_t kTokenBytes = 1000;  // of one layer: 2 kv heads x (125 + 125) x 2
inline constexpr std::int64_t kRowBytes = 500;     // one kv head of one token

// Kernels: prefill of a layer (no cached prefix), decode attention of a layer, host work a step.
struct RoundGpu {
  double prefill_layer = 0;     // seconds
  double decode_attention = 0;  // seconds a layer
  double host_step = 0;         // seconds
};

inline GpuSpec round_gpu(const RoundGpu& cost) {
  GpuSpec gpu;
  gpu.name = "round";
  gpu.peak_flops = gpu.memory_bandwidth = 1e40;  // everything else is free
  gpu.gemm_ec = gpu.gemm_em = gpu.gemm_p = gpu.prefill_ec = gpu.prefix_ec = gpu.decode_em = 1;
  gpu.elementwise_em = gpu.prefill_em = gpu.prefill_p = gpu.prefix_p = gpu.decode_p = 1;
  gpu.hack_unpack_rate = 1e40;
  gpu.sm_count = 1;
  gpu.prefill_t0 = cost.prefill_layer;
  gpu.prefix_t0 = cost.prefill_layer;
  gpu.decode_t0 = cost.decode_attention;
  gpu.host_step = cost.host_step;
  gpu.pcie_h2d = gpu.pcie_d2h = gpu.host_memory = Bandwidth::unlimited();
  gpu.memory = Bytes(std::int64_t{1} << 40U);
  return gpu;
}

inline ModelSpec round_model(std::size_t layers) {
  LayerSpec layer;
  layer.query_heads = 4;
  layer.kv_heads = 2;
  layer.head_dim = layer.value_head_dim = layer.k_width = layer.v_width = 125;
  layer.attention_parameters = 1000 * (500 + 250 + 250 + 500);
  layer.ffn_parameters = layer.ffn_active_parameters = 3 * 1000 * 2000;
  ModelSpec model;
  model.name = "round";
  model.hidden = 1000;
  model.ffn = 2000;
  model.vocabulary = 1000;
  model.max_position = 1 << 20;
  model.layers.assign(layers, layer);
  return model;
}

// One layer's statistics for all: those of SmolLM2's layer 3 at 2048 tokens.
inline SelectionSpec round_selection(std::size_t layers) {
  LayerSelection l;
  l.n = 0.0647, l.sigma_n = 0.2254, l.rho_n = 0.0597, l.sigma_between = 0.2713;
  l.g = 1.0826, l.a0 = 22.65, l.w_static = 0.6636, l.w_ar = 0.242, l.w_noise = 0.0944;
  l.rho = 0.9789, l.mass = 0.92, l.mass_cap = 0.98;
  SelectionSpec spec;
  spec.name = "round";
  spec.source = "measured on nothing";
  spec.measured_layers = static_cast<std::int64_t>(layers);
  for (const Selector selector : {Selector::infinigen, Selector::hata}) {
    SelectionFit fit;
    fit.selector = selector;
    fit.prompt_tokens = 1000;
    for (std::size_t i = 0; i < layers; ++i) {
      fit.layer_index.push_back(static_cast<std::int64_t>(i));
      fit.layers.push_back(l);
    }
    spec.fits.push_back(std::move(fit));
  }
  return spec;
}

inline NicSpec round_nic(Bandwidth rate) {
  NicSpec nic;
  nic.name = "round";
  nic.rate = rate;
  return nic;
}

inline InstanceGroup group(std::string name, Role role, std::int64_t count, std::int64_t gpus,
                           const GpuSpec& gpu, Bandwidth rate) {
  InstanceGroup g;
  g.name = std::move(name);
  g.role = role;
  g.count = count;
  g.gpus = gpus;
  g.gpu = gpu;
  g.nic = round_nic(rate);
  g.host_memory = Bytes(std::int64_t{1} << 42U);
  return g;
}

// `requests` prompts of 1000 tokens, one prefill instance each, one decode instance, one switch
// that never limits; blocks of 10 tokens; nothing is polled.
inline Scenario round_scenario(std::size_t layers, std::int64_t requests, Bandwidth rate,
                               const RoundGpu& cost) {
  Scenario s;
  s.name = "round";
  s.model = round_model(layers);
  s.instances.push_back(group("prefill", Role::prefill, requests, 1, round_gpu(cost), rate));
  s.instances.push_back(group("decode", Role::decode, 1, 1, round_gpu(cost), rate));
  s.prompts.push_back({requests, 1000, 0});
  s.output_tokens = 3;
  s.serving.blocks = 100;
  s.serving.idle_poll = Duration::zero();
  s.selection.spec = round_selection(layers);
  s.selection.partial_ratio = 0.2;  // metadata: 10 % of the KV of layers that select
  return s;
}

inline StrategyOptions strategy(PolicyKind policy, std::string name = "strategy") {
  StrategyOptions options;
  options.name = std::move(name);
  options.policy = policy;
  return options;
}

// Keeps every record.
struct Records final : TraceSink {
  std::vector<TraceRecord> all;
  void record(const TraceRecord& r) override { all.push_back(r); }
  std::vector<TraceRecord> of(TraceKind kind) const {
    std::vector<TraceRecord> found;
    for (const TraceRecord& r : all) {
      if (r.kind == kind) found.push_back(r);
    }
    return found;
  }
};

// A scenario's workload and cost models, and runs of strategies over them.
class Bench {
 public:
  explicit Bench(Scenario s)
      : scenario(std::move(s)),
        workload(scenario, scenario.seed),
        models_(make_cost_models(scenario)) {}

  StrategyRun run(const StrategyOptions& options, LinkSpeed speed = {},
                  Records* records = nullptr) {
    TraceFor trace;
    if (records != nullptr) {
      trace = [records](const std::string&, const std::vector<std::string>&,
                        const std::vector<std::string>&) { return records; };
    }
    return run_strategy(scenario, workload, models_, options, speed, trace);
  }
  StrategyRun ideal(const StrategyOptions& options) {
    LinkSpeed speed;
    speed.infinite = true;
    return run(ideal_of(options), speed);
  }
  const std::vector<std::unique_ptr<CostModel>>& models() const { return models_; }

  const Scenario scenario;
  Workload workload;

 private:
  std::vector<std::unique_ptr<CostModel>> models_;
};

}  // namespace kvlane::test
