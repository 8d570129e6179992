// In double (the codes apart, see quantise.h), one value at a time.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/common/argument.h"
#include "kernels/hack/kernel.h"
#include "kernels/hack/layout.h"
#include "kernels/hack/quantise.h"

namespace kvlane::kernels::ref {

namespace {

std::size_t size(int n) { return static_cast<std::size_t>(n); }

// K or V of one partition of one head.
class Part {
 public:
  Part(const HackLayout& layout, const void* at, bool keys)
      : layout_(layout),
        at_(static_cast<const std::byte*>(at) + (keys ? 0 : layout.values)),
        keys_(keys) {}

  std::size_t term_group(std::size_t token, std::size_t channel) const {
    return channel / layout_.partition * layout_.partition +
           (keys_ ? channel % layout_.partition : token);
  }
  double min(std::size_t token, std::size_t channel) const {
    return load(at_ + layout_.mins, Format::bf16, term_group(token, channel));
  }
  double scale(std::size_t token, std::size_t channel) const {
    return load(at_ + layout_.scales, Format::bf16, term_group(token, channel));
  }
  int code(std::size_t token, std::size_t channel) const {
    const std::size_t in_group = channel % layout_.partition;
    const auto place = keys_ ? layout_.code(token, in_group) : layout_.code(in_group, token);
    const std::byte byte = at_[channel / layout_.partition * layout_.square + place.byte];
    return (std::to_integer<int>(byte) >> place.shift) & ((1 << layout_.bits) - 1);
  }
  // Of K the codes of a token in the group of a channel, of V the codes of a channel.
  double sum(std::size_t token, std::size_t channel) const {
    const std::size_t i = keys_ ? channel / layout_.partition * layout_.partition + token : channel;
    std::uint16_t sum = 0;
    std::memcpy(&sum, at_ + layout_.sums + i * layout_.sum_bytes, layout_.sum_bytes);
    return sum;
  }
  double value(std::size_t token, std::size_t channel) const {
    return min(token, channel) + scale(token, channel) * code(token, channel);
  }

 private:
  const HackLayout& layout_;
  const std::byte* at_;
  bool keys_;
};

// Values as offset + step * u, u in [-128, 127].
struct Operand {
  explicit Operand(const std::vector<double>& values) : u(values.size(), -128) {
    for (double value : values) {
      if (!std::isfinite(value)) {
        offset = std::nan("");
        return;
      }
    }
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    step = (*high - *low) / 255;
    offset = *low + 128 * step;
    for (std::size_t i = 0; i < u.size(); ++i) {
      if (step > 0) u[i] = static_cast<int>(std::nearbyint((values[i] - *low) / step)) - 128;
    }
  }
  std::vector<int> u;
  double step = 0, offset = 0;
};

// Quantises the open block of a head into partition `part`.
void quantise(const HackShape& shape, const HackLayout& layout, std::byte* store, std::size_t part,
              std::size_t head, bool keys) {
  const std::size_t n = layout.partition;
  const std::byte* open =
      store + layout.exact(head) + (keys ? layout.open_keys : layout.open_values);
  std::byte* to = store + layout.quantised(part, head) + (keys ? 0 : layout.values);
  std::memset(to, 0, layout.values);
  for (std::size_t group = 0; group < layout.groups; ++group) {
    std::vector<int> sums(n, 0);
    for (std::size_t term = 0; term < n; ++term) {
      std::vector<float> values(n);  // that share min and scale, over the outputs
      bool finite = true;
      for (std::size_t output = 0; output < n; ++output) {
        const std::size_t token = keys ? output : term;
        const std::size_t channel = group * n + (keys ? term : output);
        values[output] = load(open, shape.format, token * layout.head_dim + channel);
        finite &= std::isfinite(values[output]);
      }
      const auto [low, high] = std::minmax_element(values.begin(), values.end());
      const HackRange range = hack_range(*low, *high, finite, shape.bits);
      std::memcpy(to + layout.mins + (group * n + term) * 2, &range.min, 2);
      std::memcpy(to + layout.scales + (group * n + term) * 2, &range.scale, 2);
      for (std::size_t output = 0; output < n; ++output) {
        const int code = hack_code(values[output], range, shape.bits);
        const auto place = layout.code(output, term);
        to[group * layout.square + place.byte] |= static_cast<std::byte>(code << place.shift);
        sums[output] += code;
      }
    }
    for (std::size_t output = 0; output < n; ++output) {
      const auto sum = static_cast<std::uint16_t>(sums[output]);
      std::memcpy(to + layout.sums + (group * n + output) * layout.sum_bytes, &sum,
                  layout.sum_bytes);
    }
  }
}

// What one query head sees of one sequence.
class View {
 public:
  View(const HackAttention& args, std::size_t sequence, std::size_t head)
      : layout_(args.shape),
        format_(args.shape.format),
        store_(static_cast<const std::byte*>(args.store) +
               sequence * hack_sequence_bytes(args.shape)),
        head_(head),
        tokens_(size(args.kv_tokens[sequence])),
        quantised_(size(hack_quantised_tokens(args.shape, args.kv_tokens[sequence]))) {}

  std::size_t tokens() const { return tokens_; }
  std::size_t parts() const { return quantised_ / layout_.partition; }
  std::size_t first_token(std::size_t part) const {
    return layout_.sinks + part * layout_.partition;
  }
  bool exact(std::size_t token) const {
    return token < layout_.sinks || token >= layout_.sinks + quantised_;
  }
  double exact(std::size_t token, std::size_t channel, bool keys) const {
    const bool sink = token < layout_.sinks;
    const std::size_t row = sink ? token : token - layout_.sinks - quantised_;
    const std::size_t offset =
        sink ? (keys ? 0 : layout_.sink_values) : (keys ? layout_.open_keys : layout_.open_values);
    return load(store_ + layout_.exact(head_) + offset, format_, row * layout_.head_dim + channel);
  }
  Part part(std::size_t part, bool keys) const {
    return {layout_, store_ + layout_.quantised(part, head_), keys};
  }
  const HackLayout& layout() const { return layout_; }

 private:
  HackLayout layout_;
  Format format_;
  const std::byte* store_;
  std::size_t head_, tokens_, quantised_;
};

// part_logits(view, part, query, logits) and part_values(view, part, weights, out) add what a
// partition gives.
template <class PartLogits, class PartValues>
void attend(const HackAttention& args, const PartLogits& part_logits,
            const PartValues& part_values) {
  require(problem(args));
  const std::size_t dim = size(args.shape.head_dim);
  const std::size_t query_heads = size(args.query_heads);
  const std::size_t group = query_heads / size(args.shape.kv_heads);
  for (std::size_t row = 0; row < size(args.sequences) * query_heads; ++row) {
    const View view(args, row / query_heads, row % query_heads / group);
    std::vector<double> query(dim), logits(view.tokens()), out(dim);
    for (std::size_t c = 0; c < dim; ++c) {
      query[c] = static_cast<double>(load(args.query, args.shape.format, row * dim + c)) *
                 static_cast<double>(args.scale);
    }
    for (std::size_t p = 0; p < view.parts(); ++p) {
      part_logits(view, p, query, logits.data() + view.first_token(p));
    }
    for (std::size_t t = 0; t < view.tokens(); ++t) {
      if (!view.exact(t)) continue;
      for (std::size_t c = 0; c < dim; ++c) logits[t] += query[c] * view.exact(t, c, true);
    }
    double top = -std::numeric_limits<double>::infinity(), sum = 0;
    for (double logit : logits) top = std::max(top, logit);
    for (double& logit : logits) {
      logit = std::isfinite(logit) ? std::exp(logit - top) : std::nan("");
      sum += logit;
    }
    for (std::size_t p = 0; p < view.parts(); ++p) {
      part_values(view, p, logits.data() + view.first_token(p), out);
    }
    for (std::size_t t = 0; t < view.tokens(); ++t) {
      if (!view.exact(t)) continue;
      for (std::size_t c = 0; c < dim; ++c) out[c] += logits[t] * view.exact(t, c, false);
    }
    for (std::size_t c = 0; c < dim; ++c) {
      store(args.out, args.shape.format, row * dim + c,
            view.tokens() == 0 ? 0.0f : static_cast<float>(out[c] / sum));
    }
  }
}

}  // namespace

void hack_append(const HackAppend& args) {
  require(problem(args));
  const HackLayout layout(args.shape);
  const std::size_t row = layout.head_dim * 2, sequence_bytes = hack_sequence_bytes(args.shape);
  std::size_t source = 0;  // in rows of all heads
  for (std::size_t s = 0; s < size(args.sequences); ++s) {
    std::byte* store = static_cast<std::byte*>(args.store) + s * sequence_bytes;
    for (std::size_t i = 0; i < size(args.tokens[s]); ++i, ++source) {
      const std::size_t token = size(args.first[s]) + i;
      const bool sink = token < layout.sinks;
      const std::size_t slot = sink ? token : (token - layout.sinks) % layout.partition;
      for (std::size_t head = 0; head < layout.kv_heads; ++head) {
        for (bool keys : {true, false}) {
          const std::size_t offset = sink ? (keys ? 0 : layout.sink_values)
                                          : (keys ? layout.open_keys : layout.open_values);
          std::memcpy(store + layout.exact(head) + offset + slot * row,
                      static_cast<const std::byte*>(keys ? args.keys : args.values) +
                          (source * layout.kv_heads + head) * row,
                      row);
          if (!sink && slot + 1 == layout.partition) {
            quantise(args.shape, layout, store, (token - layout.sinks) / layout.partition, head,
                     keys);
          }
        }
      }
    }
  }
}

void hack_attention(const HackAttention& args) {
  attend(
      args,
      [](const View& view, std::size_t p, const std::vector<double>& query, double* logits) {
        const Part keys = view.part(p, true);
        const std::size_t n = view.layout().partition;
        for (std::size_t first = 0; first < view.layout().head_dim; first += n) {
          std::vector<double> scaled(n);
          double base = 0;
          for (std::size_t c = 0; c < n; ++c) {
            scaled[c] = query[first + c] * keys.scale(0, first + c);
            base += query[first + c] * keys.min(0, first + c);
          }
          const Operand operand(scaled);
          for (std::size_t t = 0; t < n; ++t) {
            long dot = 0;
            for (std::size_t c = 0; c < n; ++c) dot += operand.u[c] * keys.code(t, first + c);
            logits[t] += operand.step * static_cast<double>(dot) +
                         operand.offset * keys.sum(t, first) + base;
          }
        }
      },
      [](const View& view, std::size_t p, const double* weights, std::vector<double>& out) {
        const Part values = view.part(p, false);
        const std::size_t n = view.layout().partition;
        for (std::size_t first = 0; first < view.layout().head_dim; first += n) {
          std::vector<double> scaled(n);
          double base = 0;
          for (std::size_t t = 0; t < n; ++t) {
            scaled[t] = weights[t] * values.scale(t, first);
            base += weights[t] * values.min(t, first);
          }
          const Operand operand(scaled);
          for (std::size_t c = first; c < first + n; ++c) {
            long dot = 0;
            for (std::size_t t = 0; t < n; ++t) dot += operand.u[t] * values.code(t, c);
            out[c] +=
                operand.step * static_cast<double>(dot) + operand.offset * values.sum(0, c) + base;
          }
        }
      });
}

void hack_dequantise_attention(const HackAttention& args) {
  attend(
      args,
      [](const View& view, std::size_t p, const std::vector<double>& query, double* logits) {
        const Part keys = view.part(p, true);
        for (std::size_t t = 0; t < view.layout().partition; ++t) {
          for (std::size_t c = 0; c < query.size(); ++c) logits[t] += query[c] * keys.value(t, c);
        }
      },
      [](const View& view, std::size_t p, const double* weights, std::vector<double>& out) {
        const Part values = view.part(p, false);
        for (std::size_t t = 0; t < view.layout().partition; ++t) {
          for (std::size_t c = 0; c < out.size(); ++c) out[c] += weights[t] * values.value(t, c);
        }
      });
}

}  // namespace kvlane::kernels::ref
