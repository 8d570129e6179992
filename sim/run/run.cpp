#include "sim/run/run.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "sim/base/check.h"
#include "sim/base/input_error.h"
#include "sim/base/rng.h"
#include "sim/report/quantile.h"
#include "sim/run/deployment.h"
#include "sim/run/provenance.h"
#include "sim/run/uncertainty.h"
#include "sim/run/verdict.h"

namespace kvlane {
namespace {

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

// `by_seed`: the values of each seed.
Distribution distribution(const std::vector<std::vector<double>>& by_seed) {
  std::vector<double> all;
  std::vector<double> means;
  for (const auto& seed : by_seed) {
    all.insert(all.end(), seed.begin(), seed.end());
    if (!seed.empty()) means.push_back(mean_of(seed));
  }
  Distribution d;
  if (all.empty()) return d;  // one output token after the second: no gap to measure
  d.mean = mean_of(all);
  std::sort(all.begin(), all.end());
  d.p50 = quantile(all, 0.50);
  d.p90 = quantile(all, 0.90);
  d.p99 = quantile(all, 0.99);
  d.max = all.back();
  if (by_seed.size() > 1) {
    const double centre = mean_of(means);
    double squares = 0;
    for (const double m : means) squares += (m - centre) * (m - centre);
    d.spread = means.size() > 1 ? std::sqrt(squares / static_cast<double>(means.size() - 1)) : 0;
  }
  return d;
}

class ScenarioRun {
 public:
  ScenarioRun(const Scenario& scenario, const RunOptions& options)
      : scenario_(scenario),
        options_(options),
        models_(make_cost_models(scenario, options.tables)) {
    for (const StrategyOptions& s : scenario_.strategies) {
      if (options_.only.empty() ||
          std::find(options_.only.begin(), options_.only.end(), s.name) != options_.only.end()) {
        chosen_.push_back(&s);
      }
    }
    check_names(scenario_, options_.only);
    for (std::int64_t i = 0; i < scenario_.seeds; ++i) {
      workloads_.push_back(
          std::make_unique<Workload>(scenario_, scenario_.seed + static_cast<std::uint64_t>(i)));
    }
  }

  Result run();
  // Every strategy once, with the factors of a draw.
  Result run(std::uint64_t draw);

 private:
  // Over all seeds; the trace is of the first.
  std::vector<StrategyRun> runs_of(const StrategyOptions& strategy, const TraceFor& trace,
                                   const std::function<void()>& each = nullptr);
  const StrategyRun& ideal(std::size_t seed, const StrategyOptions& options);
  StrategyResult summarise(const StrategyOptions& options, const std::vector<StrategyRun>& runs);
  std::string note_of(const StrategyOptions& options, const StrategyRun& run) const;
  void add_speedups(Result& result) const;
  void add_warnings(Result& result) const;

  const Scenario& scenario_;
  Scenario drawn_;                          // with another GPU and NIC in every instance
  const Scenario* simulated_ = &scenario_;  // or drawn_
  const RunOptions& options_;
  std::vector<std::unique_ptr<CostModel>> models_;
  std::vector<std::unique_ptr<Workload>> workloads_;  // by seed
  std::vector<const StrategyOptions*> chosen_;
  std::map<std::pair<std::size_t, std::string>, StrategyRun> ideals_;
};

const StrategyRun& ScenarioRun::ideal(std::size_t seed, const StrategyOptions& options) {
  const StrategyOptions wanted = ideal_of(options);
  const auto key = std::make_pair(seed, ideal_key(wanted));
  auto found = ideals_.find(key);
  if (found == ideals_.end()) {
    const auto simulate = [&] {
      LinkSpeed speed;
      speed.infinite = true;
      found =
          ideals_.emplace(key, run_strategy(*simulated_, *workloads_[seed], models_, wanted, speed))
              .first;
    };
    options_.aside ? options_.aside(simulate) : simulate();
  }
  return found->second;
}

// What a reader should know beside the numbers, from the first seed.
std::string ScenarioRun::note_of(const StrategyOptions& options, const StrategyRun& run) const {
  if (options.policy == PolicyKind::hack) {
    const bool gpu =
        options.kv_placement.value_or(scenario_.serving.kv_placement) == KvPlacement::gpu;
    return gpu ? "KV stays in GPU memory" : "KV in host memory";
  }
  if (options.auto_switch) {
    return fmt::format("auto-switch sent {} of {} requests as a whole", run.switched_to_full,
                       run.times.size());
  }
  if (options.policy != PolicyKind::smartgen && options.policy != PolicyKind::sequential) return "";
  double all = 0;
  double dense = 0;
  for (const Workload::Request& request : workloads_[0]->requests()) {
    const double ratio = wire_ratio(options, scenario_.model, request.prompt_tokens);
    all += ratio * static_cast<double>(request.layout->total_bytes().count());
    dense += ratio * static_cast<double>(request.layout->dense_bytes().count());
  }
  const double pushed = static_cast<double>(run.lane_bytes[index(Lane::proactive)].count());
  const double metadata = static_cast<double>(run.metadata.count());
  std::string text =
      fmt::format("{:.1f} % of the KV pushed before decoding, metadata {:.1f} % more",
                  100 * pushed / all, 100 * metadata / all);
  if (pushed <= dense * 1.0001) text += ": what must be sent leaves no budget for selected blocks";
  return text;
}

StrategyResult ScenarioRun::summarise(const StrategyOptions& options,
                                      const std::vector<StrategyRun>& runs) {
  StrategyResult r;
  r.name = options.name;
  r.policy = to_string(options.policy);
  r.endpoint = to_string(endpoint_of(options));
  const bool at_prefill = scenario_.serving.first_token == FirstToken::prefill;
  std::vector<std::vector<double>> ttft, ttst, second, stall, tbt, jct;
  std::vector<double> prefill;
  std::optional<double> mass = 0;
  double seconds = 0;
  std::int64_t tokens = 0;
  for (std::size_t seed = 0; seed < runs.size(); ++seed) {
    const StrategyRun& run = runs[seed];
    const StrategyRun& best = ideal(seed, options);
    for (auto* list : {&ttft, &ttst, &second, &stall, &tbt, &jct}) list->emplace_back();
    for (std::size_t i = 0; i < run.times.size(); ++i) {
      const RequestTimes& t = run.times[i];
      const RequestTimes& b = best.times[i];
      const TimePoint step_begin = at_prefill ? b.joined : b.tokens[0];
      const TtstCauses causes = ttst_causes(t, at_prefill, b.tokens[1] - step_begin);
      const TtftCauses first = ttft_causes(t, at_prefill);
      KVLANE_CHECK(causes.sum() == t.ttst() && first.sum() == t.ttft(),
                   "the parts of request {} do not add up", i);
      r.ttst_parts_s.prefill_tail += to_seconds(causes.prefill_tail);
      r.ttst_parts_s.wire += to_seconds(causes.wire);
      r.ttst_parts_s.queue += to_seconds(causes.queue);
      r.ttst_parts_s.orchestration += to_seconds(causes.orchestration);
      r.ttst_parts_s.fetch += to_seconds(causes.fetch);
      r.ttst_parts_s.step += to_seconds(causes.step);
      r.ttft_parts_s.queue += to_seconds(first.queue);
      r.ttft_parts_s.prefill += to_seconds(first.prefill);
      r.ttft_parts_s.wire += to_seconds(first.wire);
      r.ttft_parts_s.orchestration += to_seconds(first.orchestration);
      r.ttft_parts_s.step += to_seconds(first.step);
      ttft.back().push_back(to_seconds(t.ttft()));
      ttst.back().push_back(to_seconds(t.ttst()));
      second.back().push_back(to_seconds(t.second_token()));
      stall.back().push_back(to_seconds(t.ttst() - b.ttst()));
      jct.back().push_back(to_seconds(t.jct()));
      prefill.push_back(to_seconds(t.layers_end - t.layers_begin));
      double gaps = 0;
      for (std::size_t k = 2; k < t.tokens.size(); ++k) {
        tbt.back().push_back(to_seconds(t.tokens[k] - t.tokens[k - 1]));
        gaps += tbt.back().back();
      }
      r.ctl_s.resize(std::max(r.ctl_s.size(), t.tokens.size()), 0);
      for (std::size_t k = 0; k < t.tokens.size(); ++k) {
        r.ctl_s[k] += to_seconds(t.tokens[k] - t.arrived);
      }
      RequestRow row;
      row.seed = static_cast<std::int64_t>(scenario_.seed + seed);
      row.request = static_cast<std::uint32_t>(i);
      row.prompt_tokens = workloads_[seed]->requests()[i].prompt_tokens;
      row.output_tokens = scenario_.output_tokens;
      row.ttft_s = ttft.back().back();
      row.ttst_s = ttst.back().back();
      row.second_token_s = second.back().back();
      row.stall_s = stall.back().back();
      row.tbt_mean_s = t.tokens.size() > 2 ? gaps / static_cast<double>(t.tokens.size() - 2) : 0;
      row.jct_s = jct.back().back();
      r.requests.push_back(row);
      tokens += static_cast<std::int64_t>(t.tokens.size());
    }
    seconds += to_seconds(run.end);
    r.transfer_s += to_seconds(run.transfer);
    r.bytes_control += run.lane_bytes[index(Lane::control)].count();
    r.bytes_on_demand += run.lane_bytes[index(Lane::on_demand)].count();
    r.bytes_proactive += run.lane_bytes[index(Lane::proactive)].count();
    r.bytes_speculative += run.lane_bytes[index(Lane::speculative)].count();
    r.bytes_metadata += run.metadata.count();
    mass = mass && run.attention_mass ? std::optional(*mass + *run.attention_mass) : std::nullopt;
    r.on_demand_ratio.resize(std::max(r.on_demand_ratio.size(), run.on_demand_ratio.size()), 0);
    for (std::size_t s = 0; s < run.on_demand_ratio.size(); ++s) {
      r.on_demand_ratio[s] += run.on_demand_ratio[s];
    }
    for (const auto& [port, share] : run.utilisation) r.utilisation[port] += share;
    if (seed == 0) {
      r.local_after_iteration = run.local_after;
    } else if (r.local_after_iteration && run.local_after) {
      r.local_after_iteration = std::max(*r.local_after_iteration, *run.local_after);
    } else {
      r.local_after_iteration.reset();
    }
  }
  const auto requests = static_cast<double>(r.requests.size());
  const auto seeds = static_cast<double>(runs.size());
  for (double* part : {&r.ttst_parts_s.prefill_tail, &r.ttst_parts_s.wire, &r.ttst_parts_s.queue,
                       &r.ttst_parts_s.orchestration, &r.ttst_parts_s.fetch, &r.ttst_parts_s.step,
                       &r.ttft_parts_s.queue, &r.ttft_parts_s.prefill, &r.ttft_parts_s.wire,
                       &r.ttft_parts_s.orchestration, &r.ttft_parts_s.step}) {
    *part /= requests;
  }
  for (double& t : r.ctl_s) t /= requests;
  for (double& ratio : r.on_demand_ratio) ratio /= seeds;
  for (auto& [port, share] : r.utilisation) share /= seeds;
  for (std::int64_t* bytes : {&r.bytes_control, &r.bytes_on_demand, &r.bytes_proactive,
                              &r.bytes_speculative, &r.bytes_metadata}) {
    *bytes /= scenario_.seeds;
  }
  r.bytes_total = r.bytes_control + r.bytes_on_demand + r.bytes_proactive + r.bytes_speculative +
                  r.bytes_metadata;
  r.transfer_s /= seeds;
  r.prefill_s = mean_of(prefill);
  if (mass) r.attention_mass = *mass / seeds;
  r.ttft_s = distribution(ttft);
  r.ttst_s = distribution(ttst);
  r.second_token_s = distribution(second);
  r.stall_s = distribution(stall);
  r.tbt_s = distribution(tbt);
  r.jct_s = distribution(jct);
  double price = 0;
  bool priced = true;
  for (const InstanceGroup& group : scenario_.instances) {
    // Colocated serving needs no decode instances.
    if (options.policy == PolicyKind::colocated && group.role == Role::decode) continue;
    priced = priced && group.price_per_hour.has_value();
    price += static_cast<double>(group.count) * group.price_per_hour.value_or(0);
  }
  if (priced && tokens > 0) {
    r.cost_per_million_tokens = price / 3600 * seconds / static_cast<double>(tokens) * 1e6;
  }
  r.note = note_of(options, runs[0]);
  return r;
}

void ScenarioRun::add_speedups(Result& result) const {
  const StrategyResult* full = nullptr;
  for (const StrategyResult& s : result.strategies) {
    if (s.name == "full") full = &s;
  }
  if (full == nullptr) return;
  const auto ratio = [](const Distribution& a, const Distribution& b) {
    return b.mean > 0 ? a.mean / b.mean : 1.0;
  };
  const StrategyResult base = *full;
  for (StrategyResult& s : result.strategies) {
    s.speedup_vs_full =
        Speedup{ratio(base.ttst_s, s.ttst_s), ratio(base.second_token_s, s.second_token_s),
                ratio(base.tbt_s, s.tbt_s), ratio(base.jct_s, s.jct_s)};
  }
}

void ScenarioRun::add_warnings(Result& result) const {
  for (const std::string& assumption : scenario_.model.assumptions) {
    result.warnings.push_back(scenario_.model.name + ": " + assumption);
  }
  for (const std::string& warning : scenario_.warnings) result.warnings.push_back(warning);
  if (scenario_.output_tokens < 3) {
    result.warnings.push_back(
        "output_tokens 2: there is no gap after the second token, tbt says 0");
  }
}

std::vector<StrategyRun> ScenarioRun::runs_of(const StrategyOptions& strategy,
                                              const TraceFor& trace,
                                              const std::function<void()>& each) {
  std::vector<StrategyRun> runs;
  for (std::size_t seed = 0; seed < workloads_.size(); ++seed) {
    LinkSpeed speed;
    speed.infinite = strategy.policy == PolicyKind::ideal;
    const TraceFor traced = seed == 0 ? trace : nullptr;
    runs.push_back(
        options_.execute
            ? options_.execute(strategy, static_cast<std::uint32_t>(seed), traced)
            : run_strategy(*simulated_, *workloads_[seed], models_, strategy, speed, traced));
    if (each) each();
  }
  return runs;
}

// The workload, its selection and the strategies stay; instances and their ideals are new.
Result ScenarioRun::run(std::uint64_t draw) {
  const DrawFactors factors = draw_factors(scenario_, draw);
  if (simulated_ == &scenario_) {
    drawn_ = scenario_;
    simulated_ = &drawn_;
  }
  for (std::size_t g = 0; g < drawn_.instances.size(); ++g) {
    const InstanceGroup& nominal = scenario_.instances[g];
    InstanceGroup& group = drawn_.instances[g];
    group.gpu = perturbed(nominal.gpu, factors.gpus.at(nominal.gpu.name));
    const auto nic = factors.nics.find(nominal.nic.name);
    group.nic = perturbed(nominal.nic, nic == factors.nics.end() ? 1 : nic->second);
  }
  models_ = make_cost_models(drawn_, options_.tables, factors.gpus);
  ideals_.clear();
  Result result;
  result.scenario = scenario_.name;
  result.seed = scenario_.seed;
  for (const StrategyOptions* strategy : chosen_)
    result.strategies.push_back(summarise(*strategy, runs_of(*strategy, nullptr)));
  return result;
}

Result ScenarioRun::run() {
  Result result;
  result.scenario = scenario_.name;
  result.inputs = scenario_.inputs;
  result.seed = scenario_.seed;
  switch (scenario_.serving.first_token) {
    case FirstToken::prefill:
      result.first_token = "prefill";
      break;
    case FirstToken::decode_seeded:
      result.first_token = "decode_seeded";
      break;
    case FirstToken::decode_recompute:
      result.first_token = "decode_recompute";
      break;
  }
  add_warnings(result);

  const std::size_t total = chosen_.size() * workloads_.size();
  std::size_t done = 0;
  std::uint64_t hash = fnv1a(scenario_.name);
  for (const StrategyOptions* strategy : chosen_) {
    const std::vector<StrategyRun> runs = runs_of(*strategy, options_.trace, [&] {
      ++done;
      if (options_.progress) options_.progress(done, total);
    });
    for (const StrategyRun& run : runs)
      hash = fnv1a(fmt::format("{}:{:016x}", strategy->name, run.hash), hash);
    result.strategies.push_back(summarise(*strategy, runs));
  }
  // One more draw: runs that used a different number of random draws differ here too.
  Rng last(scenario_.seed, "end of run");
  hash = fnv1a(fmt::format("{:016x}", last()), hash);
  result.run_hash = fmt::format("{:016x}", hash);
  add_speedups(result);
  add_provenance(result, scenario_, models_, chosen_);  // not of the verdict's other bandwidths
  if (options_.verdict) {
    std::map<std::pair<std::size_t, double>, double> known;
    result.verdict = verdict_of(scenario_, result, [&](std::size_t s, double scale) {
      auto found = known.find({s, scale});
      if (found == known.end()) {
        LinkSpeed speed;
        speed.scale = scale;
        const StrategyRun run =
            run_strategy(scenario_, *workloads_[0], models_, *chosen_[s], speed);
        double sum = 0;
        for (const RequestTimes& t : run.times) sum += to_seconds(t.second_token());
        found = known.emplace(std::make_pair(s, scale), sum / static_cast<double>(run.times.size()))
                    .first;
      }
      return found->second;
    });
  }
  return result;
}

}  // namespace

struct DrawRuns::State {
  ScenarioRun run;
};

DrawRuns::DrawRuns(const Scenario& scenario, const RunOptions& options)
    : state_(new State{ScenarioRun(scenario, options)}) {}

DrawRuns::~DrawRuns() = default;

Result DrawRuns::run(std::uint64_t draw) { return state_->run.run(draw); }

void check_names(const Scenario& scenario, const std::vector<std::string>& only) {
  for (const std::string& name : only) {
    const bool known = std::any_of(scenario.strategies.begin(), scenario.strategies.end(),
                                   [&](const StrategyOptions& s) { return s.name == name; });
    if (known) continue;
    std::string names;
    for (const StrategyOptions& s : scenario.strategies) {
      names += (names.empty() ? "" : ", ") + s.name;
    }
    throw InputError({"--only", 0, 0}, fmt::format("no strategy '{}'", name),
                     fmt::format("expected one of {}", names));
  }
}

Result run_scenario(const Scenario& scenario, const RunOptions& options) {
  return ScenarioRun(scenario, options).run();
}

}  // namespace kvlane
