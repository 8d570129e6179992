#include "sim/scenario/scenario_text.h"

#include "sim/scenario/gpu_file.h"
#include "sim/scenario/instance_file.h"
#include "sim/scenario/nic_file.h"
#include "sim/scenario/scenario_checks.h"
#include "sim/scenario/strategy_file.h"

namespace kvlane {

namespace {

using enum Need;

constexpr double kMaxInstances = 1024;  // of a group, and groups
constexpr double kMaxTokens = 10'000'000;

ValueType name_or(const MappingBase& table) {
  ValueType inline_mapping(ValueType::Kind::mapping);
  inline_mapping.mapping = &table;
  ValueType type(ValueType::Kind::one_of);
  type.choices = {ValueType(), inline_mapping};
  return type;
}

void check_name_or_mapping(const YamlNode& n) {
  if (n.kind != YamlNode::Kind::mapping && (n.kind != YamlNode::Kind::scalar || n.text.empty()))
    throw InputError(n.place, describe(n), "expected the name of a preset, a path, or a mapping");
}

const Mapping<InstanceText>& instance_mapping() {
  using I = InstanceText;
  static const Mapping<I> table =
      Mapping<I>("instance", "Instances of one kind and role.")
          .text("name", &I::name, required,
                "Unique. One instance is called by it, several by name-0, name-1, ...")
          .words("role", &I::role, {{"prefill", Role::prefill}, {"decode", Role::decode}}, required,
                 "What the instances do.")
          .integer("count", &I::count, optional, "How many.", {1, kMaxInstances})
          .default_value("1")
          .text("type", &I::type, optional,
                "Instance type of scenarios/hardware: gpu, gpus, nic, rate, host_memory and price; "
                "each can be given here in its place.")
          .custom("gpu", name_or(gpu_changes_mapping()), optional,
                  "GPU preset or file, or {base: PRESET, key: value}. Needed without `type`.",
                  [](I& i, const YamlNode& n) {
                    check_name_or_mapping(n);
                    i.gpu = &n;
                  })
          .integer("gpus", &I::gpus, optional, "GPUs an instance. Default: the type's, else 1.",
                   {1, 64})
          .integer("tp", &I::tp, optional, "Tensor-parallel degree: gpus / tp workers an instance.",
                   {1, 64})
          .default_value("1")
          .custom("nic", name_or(nic_changes_mapping()), optional,
                  "NIC preset or file, or {base: PRESET, key: value}. Needed without `type`.",
                  [](I& i, const YamlNode& n) {
                    check_name_or_mapping(n);
                    i.nic = &n;
                  })
          .quantity("host_memory", &I::host_memory, optional,
                    "Host memory an instance. Left out and not in the type: not checked.",
                    kMemorySize)
          .quantity("price", &I::price, UnitFamily::price, optional,
                    "Of one instance, at most 1000000 USD/h. Left out and not in the type: no cost "
                    "is reported.",
                    kPrice);
  return table;
}

const Mapping<NetworkText>& network_mapping() {
  static const Mapping<SwitchText> switches =
      Mapping<SwitchText>("switch", "A switch that never blocks by itself.")
          .text("name", &SwitchText::name, required, "Unique among switches and instances.");
  static const Mapping<Cable> links =
      Mapping<Cable>("link", "A cable, full duplex.")
          .text("from", &Cable::from, required, "Switch, instance, or group (each member).")
          .text("to", &Cable::to, required, "Switch, instance, or group (each member).")
          .quantity("rate", &Cable::rate, optional,
                    "Each direction, 1 Kbps to 1 Pbps. Left out: no limit but the NIC's.",
                    kLinkRate)
          .quantity("latency", &Cable::latency, optional, "One way; at most 10 s.", {0, 10})
          .default_value("0 us");
  static const Mapping<LinkEvent> events =
      Mapping<LinkEvent>("link event", "A change of a link during the run, both directions.")
          .quantity("at", &LinkEvent::at, required,
                    "Time since the start of the run; at most 1000000 s.", {0, 1e6})
          .text("from", &LinkEvent::from, required, "End of a link above.")
          .text("to", &LinkEvent::to, required, "Its other end.")
          .quantity("rate", &LinkEvent::rate, required,
                    "New rate, 1 Kbps to 1 Pbps: 0 Gbps is a failure, the old rate a repair.",
                    {kLinkRate.low, kLinkRate.high, false, true});
  static const Mapping<NetworkText> table =
      Mapping<NetworkText>("network", "Who is wired to whom.")
          .list("switches", &NetworkText::switches, switches, optional, "Switches.")
          .list("links", &NetworkText::links, links, required, "Cables.")
          .list("events", &NetworkText::events, events, optional,
                "Degradations, failures and repairs.");
  return table;
}

const Mapping<Prompt>& prompt_mapping() {
  static const Mapping<Prompt> table =
      Mapping<Prompt>("prompt", "Prompts of one shape, all there at the start.")
          .integer("count", &Prompt::count, optional, "How many; at most 10000 in all.",
                   {1, static_cast<double>(kMaxRequests)})
          .default_value("1")
          .integer("tokens", &Prompt::tokens, required, "Length.", {1, kMaxTokens})
          .share("prefix_hit", &Prompt::prefix_hit, optional,
                 "Share of the prompt that the prefill instance has cached. Below 100 %: the last "
                 "token is computed always.")
          .default_value("0 %");
  return table;
}

Mapping<WorkloadText> add_workload_keys(Mapping<WorkloadText> table) {
  table
      .list("prompts", &WorkloadText::prompts, prompt_mapping(), required,
            "The batch, in order of arrival at time 0.")
      .integer("output_tokens", &WorkloadText::output_tokens, required,
               "Length of each answer; at least 2, since the second token is what is measured.",
               {2, 65536});
  return table;
}

const Mapping<ServingOptions>& serving_mapping() {
  using S = ServingOptions;
  static const Mapping<S> table =
      Mapping<S>("serving", "How the engine serves, the same for every strategy.")
          .words("first_token", &S::first_token,
                 {{"prefill", FirstToken::prefill},
                  {"decode_seeded", FirstToken::decode_seeded},
                  {"decode_recompute", FirstToken::decode_recompute}},
                 optional, "Who emits token 1.")
          .default_value("prefill")
          .words("prefix_location", &S::prefix_location,
                 {{"host", PrefixLocation::host}, {"gpu", PrefixLocation::gpu}}, optional,
                 "Where the cached prefix lies on the prefill side.")
          .default_value("host")
          .words("kv_placement", &S::kv_placement,
                 {{"host", KvPlacement::host}, {"gpu", KvPlacement::gpu}}, optional,
                 "Where KV is kept on both sides.")
          .default_value("host")
          .words("sliding_window", &S::sliding_window,
                 {{"exact", SlidingWindow::exact}, {"as_full", SlidingWindow::as_full}}, optional,
                 "Windowed layers keep their window, or are treated as full attention.")
          .default_value("exact")
          .integer("blocks", &S::blocks, optional,
                   "KV blocks a layer (M); their numbers have 16 bits.", {1, 65535})
          .default_value("1024")
          .integer("dense_layers", &S::dense_layers, optional,
                   "Leading layers that are always needed whole.", {0, 1024})
          .default_value("2")
          .quantity("router_hop", &S::router_hop, optional,
                    "Prefill to router to decode, once a request; at most 60 s.", {0, 60})
          .default_value("0 us")
          .quantity("allocate", &S::allocate, optional,
                    "Allocation of a request's decode blocks, at a step boundary; at most 60 s.",
                    {0, 60})
          .default_value("0 us")
          .integer(
              "gather_chunks", &S::gather_chunks, optional,
              "Pieces in which a layer's local rows are collected in host memory and copied; 1 is "
              "InfiniGen's artifact: all collected, then one copy.",
              {1, 64})
          .default_value("1")
          .quantity(
              "idle_poll", &S::idle_poll, optional,
              "An idle decode engine looks for arrivals this often (vLLM: 1 ms); a busy one at "
              "each step. At most 60 s.",
              {0, 60})
          .default_value("1 ms");
  return table;
}

const Mapping<SelectionText>& selection_mapping() {
  using S = SelectionText;
  const auto option = [](auto member) {
    return [member](S & s) -> auto& { return s.options.*member; };
  };
  static const Mapping<S> table =
      Mapping<S>("selection", "Which KV rows a decode step attends over.")
          .words("method", option(&SelectionOptions::method),
                 {{"infinigen", Selector::infinigen}, {"hata", Selector::hata}}, optional,
                 "Selection algorithm.")
          .default_value("infinigen")
          .words("count", option(&SelectionOptions::count),
                 {{"cap", SelectCount::cap}, {"threshold", SelectCount::threshold}}, optional,
                 "A fixed share of the rows, or the algorithm's own count up to it.")
          .default_value("cap")
          .share("cap", option(&SelectionOptions::cap), optional,
                 "Most rows selected; at least 0.1 %.", kLeastShare)
          .default_value("20 %")
          .share("partial_ratio", option(&SelectionOptions::partial_ratio), optional,
                 "InfiniGen's share of key channels, at least 0.1 %; half of it is metadata on the "
                 "wire.",
                 kLeastShare)
          .default_value("25 %")
          .text("profile", &S::profile, optional,
                "Statistics of scenarios/profiles. Default: the model's, else smollm2-135m.")
          .text("trace", &S::trace, optional, "Replay of this recorded trace (*.kvsel.gz).")
          .list_of("profile_traces", &S::profile_traces, ValueType(), optional,
                   "Traces of other texts that the importance profile of a replay comes from. Left "
                   "out: from the statistics of `profile`.",
                   [](const YamlNode& n) {
                     return PlacedText{read_text(n), n.place};
                   })
          .integer("texts", option(&SelectionOptions::profile_texts), optional,
                   "Other texts behind the importance profile.", {1, 256})
          .default_value("8");
  return table;
}

const Mapping<OutputOptions>& outputs_mapping() {
  using O = OutputOptions;
  static const Mapping<O> table =
      Mapping<O>("outputs", "What `kvlane run` writes; options on the command line go first.")
          .words("format", &O::format,
                 {{"table", OutputFormat::table},
                  {"json", OutputFormat::json},
                  {"csv", OutputFormat::csv}},
                 optional, "Form of the answer.")
          .default_value("table")
          .text("dir", &O::dir, optional, "Folder for the result, as --out.")
          .text("requests", &O::requests, optional, "CSV with one row a request, as --requests.")
          .text("trace", &O::trace, optional, "Chrome trace, as --trace.")
          .list_of("only", &O::only, ValueType(), optional, "Names of the strategies to run.",
                   [](const YamlNode& n) { return read_text(n); });
  return table;
}

}  // namespace

const Mapping<GpuFile>& gpu_changes_mapping() {
  static const Mapping<GpuFile> table =
      gpu_mapping().as_changes("GPU changes", "A GPU preset with some values changed.");
  return table;
}

const Mapping<WorkloadText>& workload_mapping() {
  static const Mapping<WorkloadText> table =
      add_workload_keys(Mapping<WorkloadText>("workload", "What is asked: a batch of prompts."));
  return table;
}

const Mapping<WorkloadText>& workload_file_mapping() {
  static const Mapping<WorkloadText> table = [] {
    Mapping<WorkloadText> t("workload file", "A workload by name.");
    t.words("kind", &WorkloadText::kind, {{"workload", "workload"}}, required, "What this file is.")
        .text("name", &WorkloadText::name, required, "Name of the preset: that of the file.")
        .text("description", &WorkloadText::description, required, "One line for `kvlane list`.");
    return add_workload_keys(std::move(t));
  }();
  return table;
}

const Mapping<ScenarioText>& scenario_text_mapping() {
  using S = ScenarioText;
  static const Mapping<S> table =
      Mapping<S>("scenario", "Machines, a model, prompts, and the strategies to compare.")
          .words("kind", &S::kind, {{"scenario", "scenario"}}, optional, "What this file is.")
          .default_value("scenario")
          .text("name", &S::name, required, "Name in results.")
          .text("description", &S::description, optional, "One line for `kvlane list scenarios`.")
          .text("model", &S::model, required,
                "Preset of scenarios/models, or the path of a model file or config.json.")
          .list("instances", &S::instances, instance_mapping(), required,
                "Groups of instances, at most 4096 instances in all; at least one of each role.",
                {1, kMaxInstances})
          .mapping("network", &S::network, network_mapping(), optional,
                   "Left out: one switch that never blocks joins all instances.")
          .custom("workload", name_or(workload_mapping()), required,
                  "Prompts, or a preset of scenarios/workloads.",
                  [](S& s, const YamlNode& n) {
                    check_name_or_mapping(n);
                    WorkloadText checked;
                    if (n.kind == YamlNode::Kind::mapping) workload_mapping().read(n, checked);
                    s.workload = &n;
                  })
          .mapping("serving", &S::serving, serving_mapping(), optional, "The serving engine.")
          .mapping("selection", &S::selection, selection_mapping(), optional, "KV selection.")
          .custom(
              "strategies",
              [] {
                ValueType element(ValueType::Kind::mapping);
                element.mapping = &strategy_mapping();
                ValueType type(ValueType::Kind::list);
                type.range = {1, 1000};
                type.choices = {element};
                return type;
              }(),
              required, "What is compared.",
              [](S& s, const YamlNode& n) {
                check_list(n, {1, 1000});
                for (const YamlNode& item : n.items) s.strategies.push_back(read_strategy(item));
              })
          .integer("seed", &S::seed, optional, "Seed of every random stream.")
          .default_value("1")
          .integer("seeds", &S::seeds, optional, "Repeat with this many seeds; metrics pool.",
                   {1, 10'000})
          .default_value("1")
          .mapping("outputs", &S::outputs, outputs_mapping(), optional, "What is written.");
  return table;
}

}  // namespace kvlane
