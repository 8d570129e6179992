#include "sim/policy/strategy_options.h"

namespace kvlane {

Endpoint endpoint_of(const StrategyOptions& options) {
  // Selecting rows leaves attention out: approximate, whatever the transfer does. Only those that
  // attend over everything keep the model's own answer, up to their codec.
  if (options.policy == PolicyKind::full_dense) {
    return options.payload == Payload::bf16 ? Endpoint::exact : Endpoint::compressed;
  }
  if (options.policy == PolicyKind::hack && options.hack_select == HackSelect::dense) {
    return Endpoint::compressed;
  }
  return Endpoint::approximate;
}

const char* to_string(Endpoint endpoint) {
  switch (endpoint) {
    case Endpoint::exact:
      return "exact";
    case Endpoint::compressed:
      return "compressed";
    case Endpoint::approximate:
      return "approximate";
  }
  return "?";
}

const char* to_string(PolicyKind policy) {
  switch (policy) {
    case PolicyKind::ideal:
      return "ideal";
    case PolicyKind::full:
      return "full";
    case PolicyKind::full_dense:
      return "full_dense";
    case PolicyKind::sequential:
      return "sequential";
    case PolicyKind::hack:
      return "hack";
    case PolicyKind::smartgen:
      return "smartgen";
    case PolicyKind::colocated:
      return "colocated";
  }
  return "?";
}

}  // namespace kvlane
