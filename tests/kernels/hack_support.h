#pragma once
// What the tests of HACK share: random stores, and their own reading of a store (layout.h), from
// which attention and the errors that are allowed follow in double.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/hack/kernel.h"
#include "kernels/hack/layout.h"
#include "tests/support/kernel_cases.h"

namespace kvlane::kernels::testing {

// 64-byte aligned, poisoned.
class Store {
 public:
  Store(const HackShape& shape, int sequences) : buffer_(bytes_of(shape, sequences) + 64) {
    const auto at = reinterpret_cast<std::uintptr_t>(buffer_.data());
    aligned_ = static_cast<std::byte*>(buffer_.data()) + (64 - at % 64) % 64;
  }
  std::byte* data() const { return aligned_; }

 private:
  static std::size_t bytes_of(const HackShape& shape, int sequences) {
    return hack_sequence_bytes(shape) * size(sequences);
  }
  Buffer buffer_;
  std::byte* aligned_;
};

// K or V of one kv head of one sequence, read through HackLayout::code().
struct Side {
  struct Value {
    bool exact;
    double min, scale, code, value;
  };
  std::size_t dim = 0;
  std::vector<Value> of;  // [token][channel]
  const Value& at(std::size_t token, std::size_t channel) const {
    return of[token * dim + channel];
  }
};

inline Side read_side(const HackShape& shape, const std::byte* store, int tokens, std::size_t head,
                      bool keys) {
  const HackLayout layout(shape);
  const std::size_t n = layout.partition, sinks = layout.sinks;
  const std::size_t quantised = size(hack_quantised_tokens(shape, tokens));
  Side side;
  side.dim = layout.head_dim;
  side.of.resize(size(tokens) * layout.head_dim);
  for (std::size_t t = 0; t < size(tokens); ++t) {
    for (std::size_t c = 0; c < layout.head_dim; ++c) {
      Side::Value& value = side.of[t * layout.head_dim + c];
      if (t < sinks || t >= sinks + quantised) {
        const bool sink = t < sinks;
        const std::byte* from = store + layout.exact(head) +
                                (sink ? (keys ? 0 : layout.sink_values)
                                      : (keys ? layout.open_keys : layout.open_values));
        const std::size_t row = sink ? t : t - sinks - quantised;
        value = {true, 0, 0, 0, load(from, shape.format, row * layout.head_dim + c)};
        continue;
      }
      const std::size_t part = (t - sinks) / n, token = (t - sinks) % n;
      const std::size_t group = c / n, channel = c % n;
      const std::byte* from = store + layout.quantised(part, head) + (keys ? 0 : layout.values);
      const std::size_t shared = group * n + (keys ? channel : token);
      const auto place = keys ? layout.code(token, channel) : layout.code(channel, token);
      const int byte = std::to_integer<int>(from[group * layout.square + place.byte]);
      value.exact = false;
      value.min = load(from + layout.mins, Format::bf16, shared);
      value.scale = load(from + layout.scales, Format::bf16, shared);
      value.code = (byte >> place.shift) & ((1 << shape.bits) - 1);
      value.value = value.min + value.scale * value.code;
    }
  }
  return side;
}

// Attention of one query head, and what decides how far another implementation may be off.
struct Expected {
  std::vector<double> integer, dequantised;  // [head_dim]
  double quantisation = 0;                   // bound of |integer - dequantised|
  double tie = 1e9;  // how near an operand is to a tie, in units of fp32's error there
};

// Operands as HACK rounds them: x ~ offset + step * u. Every x and the ends of their range may be
// off by `error`, relative.
struct Rounded {
  Rounded(const std::vector<double>& x, double error) : values(x) {
    const auto [low, high] = std::minmax_element(x.begin(), x.end());
    step = (*high - *low) / 255;
    if (!(step > 0)) return;
    const double least = *low;
    for (double& value : values) {
      const double u = (value - least) / step;
      const double error_of_u = error * ((std::fabs(value) + std::fabs(least)) / step + u);
      tie = std::min(tie, std::fabs(u - std::floor(u) - 0.5) / error_of_u);
      value = least + step * std::nearbyint(u);
    }
  }
  std::vector<double> values;
  double step = 0, tie = 1e9;
};

inline Expected expect(const HackAttention& args, std::size_t sequence, std::size_t query_head) {
  const HackShape& shape = args.shape;
  const int tokens = args.kv_tokens[sequence];
  const std::size_t count = size(tokens), dim = size(shape.head_dim), n = size(shape.partition);
  const std::size_t kv_head = query_head / (size(args.query_heads) / size(shape.kv_heads));
  const std::byte* store =
      static_cast<const std::byte*>(args.store) + sequence * hack_sequence_bytes(shape);
  const Side keys = read_side(shape, store, tokens, kv_head, true);
  const Side values = read_side(shape, store, tokens, kv_head, false);
  const std::size_t first = size(shape.sinks);
  const std::size_t last = first + size(hack_quantised_tokens(shape, tokens));
  constexpr double kEpsilon = 0x1p-24;  // of fp32, relative
  std::vector<double> query(dim);
  for (std::size_t c = 0; c < dim; ++c) {
    query[c] =
        static_cast<double>(load(args.query, shape.format,
                                 (sequence * size(args.query_heads) + query_head) * dim + c)) *
        static_cast<double>(args.scale);
  }

  Expected expected;
  std::vector<double> exact(count), rounded(count);
  double terms = 0, logit_error = 0;  // largest sum of |terms| of a logit; |rounded - exact|
  for (std::size_t t = 0; t < count; ++t) {
    double size_of_terms = 0;
    for (std::size_t c = 0; c < dim; ++c) {
      const Side::Value& key = keys.at(t, c);
      exact[t] += query[c] * key.value;
      size_of_terms += std::fabs(query[c]) * (std::fabs(key.min) + key.scale * key.code +
                                              (key.exact ? std::fabs(key.value) : 0));
    }
    terms = std::max(terms, size_of_terms);
  }
  rounded = exact;
  for (std::size_t part = first; part < last; part += n) {
    std::fill_n(rounded.begin() + static_cast<std::ptrdiff_t>(part), n, 0.0);
    std::vector<double> error(n);
    for (std::size_t group = 0; group < dim; group += n) {
      std::vector<double> scaled(n);
      for (std::size_t c = 0; c < n; ++c) {
        scaled[c] = query[group + c] * keys.at(part, group + c).scale;
      }
      const Rounded operand(scaled, 8 * kEpsilon);
      expected.tie = std::min(expected.tie, operand.tie);
      for (std::size_t t = 0; t < n; ++t) {
        for (std::size_t c = 0; c < n; ++c) {
          const Side::Value& key = keys.at(part + t, group + c);
          rounded[part + t] += operand.values[c] * key.code + query[group + c] * key.min;
          error[t] += operand.step / 2 * key.code;
        }
      }
    }
    logit_error = std::max(logit_error, *std::max_element(error.begin(), error.end()));
  }

  // out = sum of weights * values / sum of weights
  const auto attend = [&](const std::vector<double>& logits, bool round) {
    double top = -INFINITY, sum = 0;
    for (double logit : logits) top = std::max(top, logit);
    std::vector<double> weights(count), out(dim);
    for (std::size_t t = 0; t < count; ++t) sum += weights[t] = std::exp(logits[t] - top);
    for (std::size_t c = 0; c < dim; ++c) {
      for (std::size_t t = 0; t < count; ++t) {
        if (!round || values.at(t, c).exact) out[c] += weights[t] * values.at(t, c).value / sum;
      }
    }
    std::vector<double> error(dim);
    for (std::size_t part = first; round && part < last; part += n) {
      for (std::size_t group = 0; group < dim; group += n) {
        std::vector<double> scaled(n);
        for (std::size_t t = 0; t < n; ++t) {
          scaled[t] = weights[part + t] * values.at(part + t, group).scale;
        }
        // A weight is off by as much, relative, as its logit: two roundings of all its terms.
        const Rounded operand(scaled, (8 + 2 * terms) * kEpsilon);
        expected.tie = std::min(expected.tie, operand.tie);
        for (std::size_t c = group; c < group + n; ++c) {
          for (std::size_t t = 0; t < n; ++t) {
            const Side::Value& value = values.at(part + t, c);
            out[c] += (operand.values[t] * value.code + weights[part + t] * value.min) / sum;
            error[c] += operand.step / 2 * value.code / sum;
          }
        }
      }
    }
    expected.quantisation += *std::max_element(error.begin(), error.end());
    return out;
  };
  expected.dequantised = attend(exact, false);
  expected.integer = attend(rounded, true);
  // Logits that are off by e change a weight's share by at most a factor e^(2 e).
  double spread = 0;
  for (std::size_t c = 0; c < dim; ++c) {
    double low = INFINITY, high = -INFINITY;
    for (std::size_t t = 0; t < count; ++t) {
      low = std::min(low, values.at(t, c).value);
      high = std::max(high, values.at(t, c).value);
    }
    if (count > 0) spread = std::max(spread, high - low);
  }
  expected.quantisation += std::expm1(2 * logit_error) * spread;
  return expected;
}

}  // namespace kvlane::kernels::testing
