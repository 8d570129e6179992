// In double, one value at a time.

#include <cmath>
#include <cstddef>
#include <vector>

#include "kernels/common/argument.h"
#include "kernels/layer/kernel.h"

namespace kvlane::kernels::ref {

namespace {

// Rounds once more than a direct conversion would; the tests allow an ulp.
void put(void* out, Format format, std::size_t i, double value) {
  store(out, format, i, static_cast<float>(value));
}

std::size_t size(int n) { return static_cast<std::size_t>(n); }

}  // namespace

void rms_norm(const RmsNorm& args) {
  require(problem(args));
  const std::size_t width = size(args.width);
  for (std::size_t row = 0; row < size(args.rows); ++row) {
    double squares = 0;
    for (std::size_t i = 0; i < width; ++i) {
      const double x = load(args.x, args.format, row * width + i);
      squares += x * x;
    }
    const double root = std::sqrt(squares / static_cast<double>(width) + args.epsilon);
    for (std::size_t i = 0; i < width; ++i) {
      const double factor = load(args.weight, args.format, i) + (args.one_plus_weight ? 1.0 : 0.0);
      put(args.out, args.format, row * width + i,
          load(args.x, args.format, row * width + i) / root * factor);
    }
  }
}

void rope(const Rope& args) {
  require(problem(args));
  const std::size_t half = size(args.rotary_dim / 2), dim = size(args.head_dim);
  for (std::size_t token = 0; token < size(args.tokens); ++token) {
    for (std::size_t head = 0; head < size(args.heads); ++head) {
      const std::size_t base = (token * size(args.heads) + head) * dim;
      for (std::size_t i = 0; i < half; ++i) {
        const double angle =
            static_cast<double>(args.positions[token]) * static_cast<double>(args.frequencies[i]);
        const double a = load(args.x, args.format, base + i);
        const double b = load(args.x, args.format, base + half + i);
        put(args.out, args.format, base + i, a * std::cos(angle) - b * std::sin(angle));
        put(args.out, args.format, base + half + i, b * std::cos(angle) + a * std::sin(angle));
      }
      for (std::size_t i = 2 * half; i < dim; ++i) {
        put(args.out, args.format, base + i, load(args.x, args.format, base + i));
      }
    }
  }
}

void gated_unit(const GatedUnit& args) {
  require(problem(args));
  for (std::size_t i = 0; i < size(args.rows) * size(args.width); ++i) {
    const double x = load(args.gate, args.format, i);
    double activated = 0;
    if (args.activation == Activation::silu) {
      activated = x / (1 + std::exp(-x));
    } else {
      constexpr double kRootTwoOverPi = 0.7978845608028653559;
      activated = 0.5 * x * (1 + std::tanh(kRootTwoOverPi * (x + 0.044715 * x * x * x)));
    }
    put(args.out, args.format, i, activated * load(args.up, args.format, i));
  }
}

void embedding(const Embedding& args) {
  require(problem(args));
  const std::size_t width = size(args.width);
  for (std::size_t token = 0; token < size(args.tokens); ++token) {
    const std::size_t row = size(args.ids[token]) * width;
    for (std::size_t i = 0; i < width; ++i) {
      put(args.out, args.format, token * width + i,
          static_cast<double>(load(args.table, args.format, row + i)) *
              static_cast<double>(args.scale));
    }
  }
}

void add(const Add& args) {
  require(problem(args));
  for (std::size_t i = 0; i < static_cast<std::size_t>(args.elements); ++i) {
    put(args.out, args.format, i,
        static_cast<double>(load(args.a, args.format, i)) +
            static_cast<double>(load(args.b, args.format, i)));
  }
}

}  // namespace kvlane::kernels::ref
