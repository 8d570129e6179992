#include "sim/cli/live_run.h"

#include <fmt/format.h>

#include <filesystem>
#include <future>

#include "calibrate/live/role/choice.h"
#include "calibrate/live/role/role.h"
#include "sim/base/input_error.h"

namespace kvlane::cli {
namespace {

constexpr Duration kListensWithin = std::chrono::seconds(60);
constexpr std::chrono::milliseconds kSilentFor(50);  // while an ideal is simulated

// These have no transfer to run for real: an infinite link, and both phases on one GPU.
bool runs_live(const StrategyOptions& strategy) {
  return strategy.policy != PolicyKind::ideal && strategy.policy != PolicyKind::colocated;
}

}  // namespace

std::string own_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

std::vector<std::string> LiveRun::child_words(const std::vector<std::string>& command,
                                              const std::vector<std::string>& more,
                                              const Start& start) {
  std::vector<std::string> words = {own_program()};
  words.insert(words.end(), command.begin(), command.end());
  words.insert(words.end(), more.begin(), more.end());
  if (!start.prefill_processors.empty()) {
    std::string list;
    for (const int p : start.prefill_processors) {
      list += fmt::format("{}{}", list.empty() ? "" : ",", p);
    }
    words.insert(words.end(), {"--processors", list});
  }
  return words;
}

LiveRun::LiveRun(const Scenario& scenario, const live::LiveOptions& options, const Start& start,
                 const live::Say& say)
    : scenario_(scenario) {
  if (!scenario.link_events.empty()) {
    throw InputError({scenario.name, 0, 0}, "network.events",
                     "a live link fails when it fails; expected a scenario without them");
  }
  live::choose_compute(options);  // before anything is started
  std::vector<std::string> peers = start.peers;
  if (options.transport == live::TransportKind::modeled) {
    solo_ = std::make_unique<live::SoloRole>(scenario, options);
    say("both roles in this process: transport modeled, compute " + solo_->compute());
    return;
  }
  if (peers.empty()) {
    const std::size_t count = live::places_of(scenario).prefills.size();
    const std::vector<std::string> words =
        child_words({"run", "--role", "prefill", "--listen", start.listen}, start.words, start);
    for (std::size_t i = 0; i < count; ++i) {
      children_.push_back(std::make_unique<live::ChildRole>(words, start.enter, start.secret));
    }
    for (const auto& child : children_) {
      peers.push_back(child->wait_until_listening(kListensWithin));
    }
  }
  std::vector<live::SocketAddress> addresses;
  for (const std::string& peer : peers) addresses.push_back(live::parse_address(peer, "--peer"));
  decode_ = std::make_unique<live::DecodeRole>(scenario, options, addresses, say);
  for (const live::PeerPath& path : decode_->paths()) {
    say(fmt::format("{}: transport {}, compute {}", path.address, path.transport,
                    decode_->compute()));
  }
}

LiveRun::~LiveRun() = default;

void LiveRun::choose(const Scenario& scenario, RunOptions& options,
                     std::vector<std::string>& warnings) {
  check_names(scenario, options.only);
  std::vector<std::string> chosen;
  for (const StrategyOptions& strategy : scenario.strategies) {
    const bool asked = options.only.empty() || std::find(options.only.begin(), options.only.end(),
                                                         strategy.name) != options.only.end();
    if (!asked) continue;
    if (runs_live(strategy)) {
      chosen.push_back(strategy.name);
    } else {
      warnings.push_back(fmt::format("strategy '{}' was left out: policy {} moves nothing",
                                     strategy.name, to_string(strategy.policy)));
    }
  }
  if (chosen.empty()) {
    throw InputError({scenario.name, 0, 0}, "no strategy that moves KV",
                     "expected one, such as full or smartgen, for a live run");
  }
  warnings.emplace_back(
      "live: bytes move as fast as this link lets them, whatever the scenario's NIC states");
  options.only = chosen;
  options.verdict = false;  // its runs at other bandwidths would be simulated
}

void LiveRun::take_over(RunOptions& options) {
  options.execute = [this](const StrategyOptions& strategy, std::uint32_t seed,
                           const TraceFor& trace) {
    return solo_ ? solo_->run(strategy, seed, trace) : decode_->run(strategy, seed, trace);
  };
  if (!decode_) return;
  options.aside = [this](const std::function<void()>& work) {
    std::future<void> done = std::async(std::launch::async, work);
    while (done.wait_for(kSilentFor) != std::future_status::ready) decode_->breathe();
    done.get();
  };
}

void LiveRun::end() {
  if (solo_) return;
  decode_->close();
  for (const auto& child : children_) {
    const int status = child->wait(std::chrono::seconds(10));
    if (status != 0) {
      throw RunError(fmt::format("a prefill role ended with status {}: {}", status, child->said()));
    }
  }
}

LiveFacts LiveRun::facts() const {
  LiveFacts facts;
  if (solo_) {
    facts.compute = solo_->compute();
    facts.verified_bytes = solo_->verified_bytes();
    facts.peers.push_back({"this process", "modeled", 0, 0});
    return facts;
  }
  facts.compute = decode_->compute();
  facts.verified_bytes = decode_->verified_bytes();
  for (const live::PeerPath& path : decode_->paths()) {
    facts.peers.push_back(
        {path.address, path.transport, path.clock_error_us * 1e-6, path.round_trip_us * 1e-6});
  }
  return facts;
}

}  // namespace kvlane::cli
