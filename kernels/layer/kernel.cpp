#include "kernels/layer/kernel.h"

#include <algorithm>
#include <cmath>

#include "kernels/common/argument.h"

namespace kvlane::kernels {

namespace {

bool positive(double value) { return std::isfinite(value) && value > 0; }

}  // namespace

const char* problem(const RopeFrequencies& args) {
  if (args.rotary_dim < 0 || args.rotary_dim % 2 != 0) {
    return "rope: rotary_dim is even and not negative";
  }
  if (!positive(args.theta)) return "rope: theta is positive";
  if (args.scaling == RopeScaling::none) return nullptr;
  if (!positive(args.factor)) return "rope: the scaling factor is positive";
  if (args.scaling == RopeScaling::linear) return nullptr;
  if (!positive(args.original_context)) return "rope: original_context is positive";
  if (!positive(args.low_frequency_factor) ||
      !positive(args.high_frequency_factor - args.low_frequency_factor)) {
    return "rope: 0 < low_frequency_factor < high_frequency_factor";
  }
  return nullptr;
}

void rope_frequencies(const RopeFrequencies& args, float* out) {
  require(problem(args));
  constexpr double kTwoPi = 6.283185307179586476925;
  for (int i = 0; i < args.rotary_dim / 2; ++i) {
    double frequency = std::pow(args.theta, -2.0 * i / args.rotary_dim);
    if (args.scaling == RopeScaling::linear) {
      frequency /= args.factor;
    } else if (args.scaling == RopeScaling::llama3) {
      // How often the pair turns within the original context decides: below low_frequency_factor
      // turns it is stretched, above high_frequency_factor it stays.
      const double turns = args.original_context * frequency / kTwoPi;
      const double keep = std::clamp((turns - args.low_frequency_factor) /
                                         (args.high_frequency_factor - args.low_frequency_factor),
                                     0.0, 1.0);
      frequency = (1 - keep) * frequency / args.factor + keep * frequency;
    }
    out[i] = static_cast<float>(frequency);
  }
}

const char* problem(const RmsNorm& args) {
  if (args.rows < 0 || args.width < 0) return "rms_norm: sizes are not negative";
  if (!(args.epsilon >= 0)) return "rms_norm: epsilon is not negative";
  if (args.rows == 0 || args.width == 0) return nullptr;
  if (args.x == nullptr || args.weight == nullptr || args.out == nullptr) {
    return "rms_norm: null tensor";
  }
  return nullptr;
}

const char* problem(const Rope& args) {
  if (args.tokens < 0 || args.heads < 0 || args.head_dim < 0) {
    return "rope: sizes are not negative";
  }
  if (args.rotary_dim < 0 || args.rotary_dim % 2 != 0 || args.rotary_dim > args.head_dim) {
    return "rope: rotary_dim is even, not negative and at most head_dim";
  }
  if (args.tokens == 0 || args.heads == 0 || args.head_dim == 0) return nullptr;
  if (args.x == nullptr || args.out == nullptr) return "rope: null tensor";
  if (args.rotary_dim > 0 && (args.positions == nullptr || args.frequencies == nullptr)) {
    return "rope: null positions or frequencies";
  }
  return nullptr;
}

const char* problem(const GatedUnit& args) {
  if (args.rows < 0 || args.width < 0) return "gated_unit: sizes are not negative";
  if (args.rows == 0 || args.width == 0) return nullptr;
  if (args.gate == nullptr || args.up == nullptr || args.out == nullptr) {
    return "gated_unit: null tensor";
  }
  return nullptr;
}

const char* problem(const Embedding& args) {
  if (args.tokens < 0 || args.width < 0 || args.vocabulary < 0) {
    return "embedding: sizes are not negative";
  }
  if (args.tokens == 0) return nullptr;
  if (args.ids == nullptr) return "embedding: null ids";
  for (int t = 0; t < args.tokens; ++t) {
    if (args.ids[t] < 0 || args.ids[t] >= args.vocabulary) {
      return "embedding: an id is outside the vocabulary";
    }
  }
  if (args.width == 0) return nullptr;
  if (args.table == nullptr || args.out == nullptr) return "embedding: null tensor";
  return nullptr;
}

const char* problem(const Add& args) {
  if (args.elements < 0) return "add: elements is not negative";
  if (args.elements == 0) return nullptr;
  if (args.a == nullptr || args.b == nullptr || args.out == nullptr) return "add: null tensor";
  return nullptr;
}

}  // namespace kvlane::kernels
