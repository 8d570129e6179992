#include "sim/scenario/scenario_checks.h"

#include <algorithm>
#include <map>
#include <set>

#include "sim/scenario/memory_check.h"
#include "sim/scenario/schema.h"

namespace kvlane {

namespace {

using Path = std::vector<YamlStep>;

const SourcePlace& place(const YamlNode& root, const Path& path) {
  return node_at(root, path).place;
}

// Sums, before anything is listed one by one.
void check_sizes(const YamlNode& root, const Scenario& s) {
  std::int64_t instances = 0;
  for (std::size_t i = 0; i < s.instances.size(); ++i) {
    instances += s.instances[i].count;
    if (instances > kMaxAllInstances)
      throw InputError(place(root, {"instances", i, "count"}),
                       fmt::format("{} instances in all", instances),
                       fmt::format("expected at most {}", kMaxAllInstances));
  }
  std::int64_t requests = 0;
  for (std::size_t i = 0; i < s.prompts.size(); ++i) {
    requests += s.prompts[i].count;
    if (requests > kMaxRequests)
      throw InputError(place(root, {"workload", "prompts", i, "count"}),
                       fmt::format("{} requests in all", requests),
                       fmt::format("expected at most {}", kMaxRequests));
  }
}

// Instances and switches share one name space, since both are nodes of the network.
std::vector<std::string> check_names(const YamlNode& root, const Scenario& s) {
  std::vector<std::string> ends;
  std::set<std::string> seen;
  const auto add = [&](const std::string& name, const Path& path) {
    if (!seen.insert(name).second)
      throw InputError(place(root, path), "the name `" + name + "` a second time",
                       "expected every instance and switch to have a name of its own");
  };
  for (std::size_t i = 0; i < s.instances.size(); ++i) {
    const InstanceGroup& group = s.instances[i];
    add(group.name, {"instances", i, "name"});
    ends.push_back(group.name);
    if (group.count > 1)
      for (const std::string& name : instance_names(group)) {
        add(name, {"instances", i, "name"});
        ends.push_back(name);
      }
  }
  const YamlNode* network = root.find("network");
  for (std::size_t i = 0; network != nullptr && i < s.switches.size(); ++i) {
    add(s.switches[i], {"network", "switches", i, "name"});
    ends.push_back(s.switches[i]);
  }
  std::set<std::string> strategies;
  for (std::size_t i = 0; i < s.strategies.size(); ++i)
    if (!strategies.insert(s.strategies[i].name).second)
      throw InputError(place(root, {"strategies", i, "name"}),
                       "the strategy `" + s.strategies[i].name + "` a second time",
                       "expected every strategy to have a name of its own");
  return ends;
}

void check_roles(const YamlNode& root, const Scenario& s) {
  for (const auto& [role, word] : {std::pair{Role::prefill, "prefill"}, {Role::decode, "decode"}})
    if (std::none_of(s.instances.begin(), s.instances.end(),
                     [role = role](const InstanceGroup& g) { return g.role == role; }))
      throw InputError(place(root, {"instances"}), std::string("no instance with role ") + word,
                       "expected at least one prefill and one decode instance");
}

void check_parallelism(const YamlNode& root, const Scenario& s) {
  for (std::size_t i = 0; i < s.instances.size(); ++i) {
    const InstanceGroup& group = s.instances[i];
    const SourcePlace& at = place(root, {"instances", i, "tp"});
    if (group.gpus % group.tp != 0)
      throw InputError(at, fmt::format("tp {} with {} GPUs an instance", group.tp, group.gpus),
                       "expected tp to divide the number of GPUs");
    if (group.tp == 1) continue;
    for (std::size_t l = 0; l < s.model.layers.size(); ++l) {
      const LayerSpec& layer = s.model.layers[l];
      const auto refuse = [&](std::string_view what, std::int64_t heads) {
        throw InputError(at,
                         fmt::format("tp {} with {} {} in layer {} of {}", group.tp, heads, what, l,
                                     s.model.name),
                         fmt::format("expected tp to divide the number of {}", what));
      };
      if (layer.query_heads % group.tp != 0) refuse("query heads", layer.query_heads);
      const bool shares_heads =
          layer.attention == AttentionKind::full || layer.attention == AttentionKind::windowed;
      if (shares_heads && layer.kv_heads % group.tp != 0) refuse("KV heads", layer.kv_heads);
    }
    if (group.gpu.all_reduce.count(group.tp) == 0) {
      std::vector<std::string> degrees;
      for (const auto& [ranks, cost] : group.gpu.all_reduce)
        degrees.push_back(std::to_string(ranks));
      throw InputError(at, fmt::format("tp {} on {}", group.tp, group.gpu.name),
                       degrees.empty() ? "expected tp 1: the GPU file has no all_reduce rows"
                                       : "expected one of the GPU file's all_reduce rows: " +
                                             join_words(degrees));
    }
  }
}

class Reachability {
 public:
  explicit Reachability(const Scenario& s) {
    for (const Cable& cable : s.cables)
      for (const std::string& a : end_names(s, cable.from))
        for (const std::string& b : end_names(s, cable.to)) parent_[root(a)] = root(b);
  }
  bool connected(const std::string& a, const std::string& b) { return root(a) == root(b); }

 private:
  std::string root(const std::string& name) {
    std::string at = name;
    for (auto it = parent_.find(at); it != parent_.end() && it->second != at; it = parent_.find(at))
      at = it->second;
    return at;
  }
  std::map<std::string, std::string> parent_;
};

void check_network(const YamlNode& root, const Scenario& s, const std::vector<std::string>& ends) {
  if (root.find("network") == nullptr) return;  // made by the reader
  const auto check_end = [&](const std::string& name, const Path& path) {
    if (std::find(ends.begin(), ends.end(), name) == ends.end())
      throw InputError(place(root, path), "no instance or switch `" + name + "`",
                       "expected one of " + join_words(ends) + nearest_hint(name, ends));
  };
  std::set<std::pair<std::string, std::string>> cables;
  for (std::size_t i = 0; i < s.cables.size(); ++i) {
    const Cable& cable = s.cables[i];
    check_end(cable.from, {"network", "links", i, "from"});
    check_end(cable.to, {"network", "links", i, "to"});
    for (const std::string& a : end_names(s, cable.from))
      for (const std::string& b : end_names(s, cable.to)) {
        if (a == b)
          throw InputError(place(root, {"network", "links", i, "to"}),
                           "a link from `" + a + "` to itself", "expected two different ends");
        if (!cables.insert(std::minmax(a, b)).second)
          throw InputError(place(root, {"network", "links", i}),
                           "a second link between `" + a + "` and `" + b + "`",
                           "expected one link with the rate of both");
      }
  }
  for (std::size_t i = 0; i < s.link_events.size(); ++i) {
    const LinkEvent& event = s.link_events[i];
    check_end(event.from, {"network", "events", i, "from"});
    check_end(event.to, {"network", "events", i, "to"});
    for (const std::string& a : end_names(s, event.from))
      for (const std::string& b : end_names(s, event.to))
        if (cables.count(std::minmax(a, b)) == 0)
          throw InputError(place(root, {"network", "events", i}),
                           "no link between `" + a + "` and `" + b + "`",
                           "expected the two ends of a link");
  }
  Reachability reach(s);
  std::string first;
  for (std::size_t i = 0; i < s.instances.size(); ++i)
    for (const std::string& name : instance_names(s.instances[i])) {
      if (first.empty()) first = name;
      if (!reach.connected(first, name))
        throw InputError(place(root, {"network", "links"}),
                         "no way from `" + first + "` to `" + name + "`",
                         "expected links that join all instances");
    }
}

void check_workload(const YamlNode& root, const Scenario& s) {
  for (std::size_t i = 0; i < s.prompts.size(); ++i) {
    const std::int64_t total = s.prompts[i].tokens + s.output_tokens;
    if (s.model.max_position > 0 && total > s.model.max_position)
      throw InputError(place(root, {"workload", "prompts", i, "tokens"}),
                       fmt::format("{} prompt + {} output = {} tokens", s.prompts[i].tokens,
                                   s.output_tokens, total),
                       fmt::format("expected at most {}, the longest {} takes",
                                   s.model.max_position, s.model.name));
  }
  if (s.serving.dense_layers > s.model.layer_count())
    throw InputError(
        place(root, {"serving", "dense_layers"}),
        fmt::format("{} dense layers", s.serving.dense_layers),
        fmt::format("expected at most the {} layers of {}", s.model.layer_count(), s.model.name));
}

// Selector words of the trace format (kvlane-selection-1).
Selector selector_of(const SelectionTrace& trace) {
  return trace.selector == "ig" ? Selector::infinigen : Selector::hata;
}

void check_trace(const SourcePlace& at, const SelectionTrace& trace, const Scenario& s) {
  const auto refuse = [&](const std::string& found, const std::string& expected) {
    throw InputError(at, "trace " + trace.name + ": " + found, "expected " + expected);
  };
  if (trace.model_layers != s.model.layer_count())
    refuse(fmt::format("recorded on a model of {} layers", trace.model_layers),
           fmt::format("the {} layers of {}", s.model.layer_count(), s.model.name));
  for (const std::int64_t l : trace.layers) {
    const LayerSpec& layer = s.model.layers[static_cast<std::size_t>(l)];
    if (layer.kv_heads != trace.kv_heads)
      refuse(fmt::format("{} KV heads", trace.kv_heads),
             fmt::format("the {} of layer {} of {}", layer.kv_heads, l, s.model.name));
  }
}

void check_selection(const YamlNode& root, const Scenario& s) {
  const SelectionOptions& selection = s.selection;
  std::set<Selector> used;
  for (const StrategyOptions& o : s.strategies)
    if (o.policy != PolicyKind::full_dense) used.insert(o.selection.value_or(selection.method));
  if (!selection.trace) {
    if (!selection.profile_traces.empty())
      throw InputError(place(root, {"selection", "profile_traces"}),
                       "profile_traces without a trace",
                       "expected selection.trace beside it, or the key left out");
    return;
  }
  const SelectionTrace& trace = *selection.trace;
  const SourcePlace& at = place(root, {"selection", "trace"});
  check_trace(at, trace, s);
  for (const Prompt& prompt : s.prompts)
    if (prompt.tokens != trace.prompt_tokens)
      throw InputError(
          at, fmt::format("trace {}: a prompt of {} tokens", trace.name, trace.prompt_tokens),
          fmt::format("expected the {} tokens of the workload", prompt.tokens));
  if (s.output_tokens - 1 > trace.steps)
    throw InputError(at, fmt::format("trace {}: {} decode steps", trace.name, trace.steps),
                     fmt::format("expected at least {} for {} output tokens", s.output_tokens - 1,
                                 s.output_tokens));
  for (const Selector method : used)
    if (method != selector_of(trace))
      throw InputError(at, "trace " + trace.name + ": recorded with " + trace.selector,
                       "expected a trace of the selection method that the strategies use");
  for (std::size_t i = 0; i < selection.profile_traces.size(); ++i) {
    const SelectionTrace& other = selection.profile_traces[i];
    const SourcePlace& there = place(root, {"selection", "profile_traces", i});
    check_trace(there, other, s);
    if (other.text == trace.text && other.kind == trace.kind)
      throw InputError(there, "trace " + other.name + " is of the text that is replayed",
                       "expected other texts: a profile is measured offline");
  }
}

void check_strategies(const YamlNode& root, Scenario& s) {
  for (std::size_t i = 0; i < s.strategies.size(); ++i) {
    const StrategyOptions& options = s.strategies[i];
    const bool own_queries =
        options.order == PushOrder::own_queries || options.order == PushOrder::own_queries_profile;
    if (own_queries && s.selection.trace)
      throw InputError(place(root, {"strategies", i, "order"}),
                       "an order by the prompt's own queries on a replay",
                       "expected another order: traces do not record the prompt's own queries");
    if (options.policy == PolicyKind::hack)
      for (const InstanceGroup& group : s.instances)
        if (group.role == Role::decode && group.gpu.peak_int8_ops <= 0)
          s.warnings.push_back(fmt::format(
              "strategy {}: {} has no int8 tensor cores, HACK's kernel gains nothing there",
              options.name, group.gpu.name));
  }
  for (std::size_t i = 0; i < s.outputs.only.size(); ++i) {
    std::vector<std::string> names;
    for (const StrategyOptions& o : s.strategies) names.push_back(o.name);
    if (std::find(names.begin(), names.end(), s.outputs.only[i]) == names.end())
      throw InputError(
          place(root, {"outputs", "only", i}), "no strategy `" + s.outputs.only[i] + "`",
          "expected one of " + join_words(names) + nearest_hint(s.outputs.only[i], names));
  }
}

}  // namespace

void check_scenario(const YamlNode& root, Scenario& scenario) {
  check_sizes(root, scenario);
  const std::vector<std::string> ends = check_names(root, scenario);
  check_roles(root, scenario);
  check_parallelism(root, scenario);
  check_network(root, scenario, ends);
  check_workload(root, scenario);
  check_selection(root, scenario);
  check_strategies(root, scenario);
  check_memory(root, scenario);
}

}  // namespace kvlane
