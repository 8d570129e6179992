#include <bit>
#include <cmath>

#include "kernels/common/argument.h"
#include "kernels/hata/kernel.h"

namespace kvlane::kernels {

void ref::hata_encode(const HataEncode& args) {
  require(problem(args));
  const auto width = static_cast<std::size_t>(args.head_dim);
  for (int t = 0; t < args.tokens; ++t) {
    for (int h = 0; h < args.heads; ++h) {
      const auto vector = static_cast<std::size_t>(t) * static_cast<std::size_t>(args.heads) +
                          static_cast<std::size_t>(h);
      const auto kv_head = static_cast<std::size_t>(h / (args.heads / args.kv_heads));
      HataCode code{};
      double square = 0;
      for (std::size_t i = 0; i < width; ++i) {
        square += std::pow(static_cast<double>(load(args.x, args.format, vector * width + i)), 2);
      }
      for (std::size_t j = 0; j < 128; ++j) {
        double sum = 0;
        for (std::size_t i = 0; i < width; ++i) {
          sum += static_cast<double>(load(args.x, args.format, vector * width + i)) *
                 static_cast<double>(args.weights[(kv_head * width + i) * 128 + j]);
        }
        if (sum > 0) code.word[j / 64] |= std::uint64_t{1} << (j % 64);
      }
      args.codes[vector] = code;
      if (args.norms != nullptr)
        args.norms[vector] = to_fp16(static_cast<float>(std::sqrt(square)));
    }
  }
}

void ref::hata_score(const HataScore& args) {
  require(problem(args));
  const int group = args.query_heads / args.kv_heads;
  for (int s = 0; s < args.sequences; ++s) {
    for (int h = 0; h < args.kv_heads; ++h) {
      for (int t = 0; t < args.kv_tokens[s]; ++t) {
        const std::size_t at =
            static_cast<std::size_t>(s * args.kv_heads + h) * static_cast<std::size_t>(args.width) +
            static_cast<std::size_t>(t);
        int distance = 0;
        for (int g = 0; g < group; ++g) {
          const HataCode& query = args.query_codes[s * args.query_heads + h * group + g];
          for (int i : {0, 1}) {
            distance += std::popcount(query.word[i] ^ args.key_codes[at].word[i]);
          }
        }
        const double norm =
            args.key_norms == nullptr ? 1 : static_cast<double>(from_fp16(args.key_norms[at]));
        args.scores[at] = static_cast<float>((group - distance / 64.0) * norm);
      }
    }
  }
}

}  // namespace kvlane::kernels
