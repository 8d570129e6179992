#include <cmath>
#include <limits>
#include <vector>

#include "kernels/common/argument.h"
#include "kernels/infinigen/kernel.h"
#include "kernels/infinigen/take.h"

namespace kvlane::kernels {

void ref::infinigen_project(const InfinigenProject& args) {
  require(problem(args));
  const auto width = static_cast<std::size_t>(args.head_dim);
  const auto kept = static_cast<std::size_t>(args.channels_kept);
  for (int v = 0; v < args.tokens * args.heads; ++v) {
    const auto kv_head = static_cast<std::size_t>(v % args.heads / (args.heads / args.kv_heads));
    for (std::size_t c = 0; c < kept; ++c) {
      const auto column = static_cast<std::size_t>(args.channels[kv_head * kept + c]);
      double sum = 0;
      for (std::size_t i = 0; i < width; ++i) {
        sum += static_cast<double>(
                   load(args.x, args.format, static_cast<std::size_t>(v) * width + i)) *
               static_cast<double>(args.skew[(kv_head * width + i) * width + column]);
      }
      store(args.partial, args.format, static_cast<std::size_t>(v) * kept + c,
            static_cast<float>(sum));
    }
  }
}

void ref::infinigen_score(const InfinigenScore& args) {
  require(problem(args));
  const int group = args.query_heads / args.kv_heads;
  const auto kept = static_cast<std::size_t>(args.channels_kept);
  std::int64_t wanted = 0;
  for (int s = 0; s < args.sequences; ++s) {
    const auto n = static_cast<std::size_t>(args.kv_tokens[s]);
    for (int h = 0; h < args.kv_heads; ++h) {
      const std::size_t at =
          static_cast<std::size_t>(s * args.kv_heads + h) * static_cast<std::size_t>(args.width);
      std::vector<double> scores(n, 0.0), logits(n);
      for (int g = 0; g < group; ++g) {
        const auto query = static_cast<std::size_t>(s * args.query_heads + h * group + g) * kept;
        double top = -std::numeric_limits<double>::infinity();
        for (std::size_t t = 0; t < n; ++t) {
          double sum = 0;
          for (std::size_t c = 0; c < kept; ++c) {
            sum += static_cast<double>(load(args.query, args.format, query + c)) *
                   static_cast<double>(load(args.keys, args.format, (at + t) * kept + c));
          }
          logits[t] = sum * static_cast<double>(args.scale);
          top = std::max(top, logits[t]);
        }
        double total = 0;
        for (double logit : logits) total += std::exp(logit - top);
        for (std::size_t t = 0; t < n; ++t) {
          scores[t] += std::exp(logits[t] - top) / total;
          if (logits[t] > top - static_cast<double>(args.alpha)) ++wanted;
        }
      }
      for (std::size_t t = 0; t < n; ++t) args.scores[at + t] = static_cast<float>(scores[t]);
    }
  }
  *args.take = rows_to_take(args, wanted);
}

}  // namespace kvlane::kernels
