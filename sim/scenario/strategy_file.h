#pragma once
// Strategies in a scenario: a policy name sets defaults, the other keys deviate from them. An
// option that means nothing to the policy is an error, so that nobody believes it had an effect.

#include <string>
#include <utility>
#include <vector>

#include "sim/policy/strategy_options.h"
#include "sim/scenario/schema.h"

namespace kvlane {

const Mapping<StrategyOptions>& strategy_mapping();

// What a policy does where a scenario says nothing else.
StrategyOptions policy_defaults(PolicyKind policy);

StrategyOptions read_strategy(const YamlNode& node);

// Names and one-line descriptions, for `kvlane list strategies`.
std::vector<std::pair<std::string, std::string>> list_policies();

}  // namespace kvlane
