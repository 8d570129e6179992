#pragma once
// A scenario as types: everything that a run needs, names resolved, units applied, ranges checked.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/gpu/gpu_spec.h"
#include "sim/kv/model_spec.h"
#include "sim/net/nic_spec.h"
#include "sim/policy/strategy_options.h"
#include "sim/select/replay.h"
#include "sim/select/selection_spec.h"

namespace kvlane {

enum class Role : std::uint8_t { prefill, decode };

struct InstanceGroup {
  std::string name;  // node names are name when count = 1, else name-0, name-1, ...
  Role role = Role::prefill;
  std::int64_t count = 1;
  std::string type;  // instance type preset, for the report; may be empty
  GpuSpec gpu;
  std::int64_t gpus = 1;  // an instance
  int tp = 1;             // gpus / tp workers an instance
  NicSpec nic;            // one port, shared by the instance's GPUs
  Bytes host_memory{0};
  std::optional<double> price_per_hour;      // USD
  std::map<std::string, Source> nic_source;  // of the NIC's values, by key; absent: the scenario's
};

struct Cable {
  std::string from, to;  // instance group (each member), instance or switch
  Bandwidth rate = Bandwidth::unlimited();
  Duration latency{0};
};

struct LinkEvent {  // degradation (rate > 0), failure (0) or repair at a time
  Duration at{0};
  std::string from, to;
  Bandwidth rate;
};

struct Prompt {
  std::int64_t count = 1;
  std::int64_t tokens = 0;
  double prefix_hit = 0;  // share of the prompt already cached at the prefill instance
};

enum class SlidingWindow : std::uint8_t { exact, as_full };

struct ServingOptions {
  FirstToken first_token = FirstToken::prefill;
  PrefixLocation prefix_location = PrefixLocation::host;
  KvPlacement kv_placement = KvPlacement::host;
  SlidingWindow sliding_window = SlidingWindow::exact;
  std::int64_t blocks = 1024;  // M
  int dense_layers = 2;
  Duration router_hop{0};             // prefill -> router -> decode, once a request
  Duration allocate{0};               // decode blocks of a request, at the step boundary
  std::int64_t gather_chunks = 1;     // local rows are collected, then copied, in so many pieces
  Duration idle_poll{1'000'000'000};  // an idle decode engine looks for arrivals this often
};

struct SelectionOptions {
  Selector method = Selector::infinigen;
  SelectCount count = SelectCount::cap;
  double cap = 0.20;
  double partial_ratio = 0.25;                 // InfiniGen's r: metadata r/2 of the KV bytes
  std::optional<SelectionTrace> trace;         // replay instead of the generator
  std::vector<SelectionTrace> profile_traces;  // other texts, for the profile of a replay
  SelectionSpec spec;
  int profile_texts = 8;
};

struct InputFile {
  std::string path, sha256;  // a preset's path from the folder that holds scenarios/
  std::string opened = {};   // the path that was read
};

enum class OutputFormat : std::uint8_t { table, json, csv };

struct OutputOptions {  // what `run` writes where the command line says nothing else
  OutputFormat format = OutputFormat::table;
  std::optional<std::string> dir, requests, trace;
  std::vector<std::string> only;  // names of strategies; empty: all
};

struct Scenario {
  std::string name;
  std::string description;
  ModelSpec model;
  std::vector<InstanceGroup> instances;
  std::vector<std::string> switches;
  std::vector<Cable> cables;
  std::vector<LinkEvent> link_events;
  std::vector<Prompt> prompts;
  std::int64_t output_tokens = 64;
  ServingOptions serving;
  SelectionOptions selection;
  std::vector<StrategyOptions> strategies;
  std::uint64_t seed = 1;
  std::int64_t seeds = 1;
  OutputOptions outputs;
  std::vector<InputFile> inputs;      // every file read, in order
  std::vector<std::string> warnings;  // legal, but to be known
};

// Node names of a group: its name when count = 1, else name-0, name-1, ...
std::vector<std::string> instance_names(const InstanceGroup& group);
// What an end of a cable or link event stands for: all members of a group, or the one node.
std::vector<std::string> end_names(const Scenario& scenario, const std::string& end);

}  // namespace kvlane
