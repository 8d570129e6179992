// Version 1: one pass over the rows (RMSNorm: two, the second from L1), in vectors of fp32.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/layer/cpu.cpp"
#include <hwy/foreach_target.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/common/argument.h"
#include "kernels/common/simd-inl.h"
#include "kernels/layer/kernel.h"

HWY_BEFORE_NAMESPACE();
namespace kvlane::kernels {
namespace HWY_NAMESPACE {

using One = hn::CappedTag<float, 1>;

// body(d, i) over [0, n): whole vectors, then one element at a time.
template <class Body>
HWY_INLINE void in_strips(std::size_t n, const Body& body) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) body(d, i);
  for (; i < n; ++i) body(One(), i);
}

// Elements that a thread takes at once: 32 KiB of bf16.
inline constexpr std::size_t kElements = 16384;

template <class T>
HWY_INLINE float sum_of_squares(const T* x, std::size_t width) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  auto a = hn::Zero(d), b = a;
  std::size_t i = 0;
  for (; i + 2 * lanes <= width; i += 2 * lanes) {
    const auto u = load_floats(d, x + i), v = load_floats(d, x + i + lanes);
    a = hn::MulAdd(u, u, a);
    b = hn::MulAdd(v, v, b);
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(a, b)));
  for (; i < width; ++i) {
    const float u = hn::GetLane(load_floats(One(), x + i));
    sum += u * u;
  }
  return sum;
}

template <class T>
HWY_INLINE void norm_row(const RmsNorm& args, const T* x, const T* weight, T* out) {
  const auto width = static_cast<std::size_t>(args.width);
  const float mean = sum_of_squares(x, width) / static_cast<float>(width) + args.epsilon;
  float inverse = 1 / std::sqrt(mean);
  if (!(mean > 1e-30f && mean < std::numeric_limits<float>::infinity())) {
    double squares = 0;  // squares that leave the range of fp32, although the norm does not
    for (std::size_t i = 0; i < width; ++i) {
      const double u = hn::GetLane(load_floats(One(), x + i));
      squares += u * u;
    }
    inverse = static_cast<float>(
        1 / std::sqrt(squares / static_cast<double>(width) + static_cast<double>(args.epsilon)));
  }
  const float plus = args.one_plus_weight ? 1.0f : 0.0f;
  in_strips(width, [&](auto d, std::size_t i) HWY_ATTR {
    const auto factor = hn::Add(load_floats(d, weight + i), hn::Set(d, plus));
    const auto normal = hn::Mul(load_floats(d, x + i), hn::Set(d, inverse));
    store_floats(d, hn::Mul(normal, factor), out + i);
  });
}

template <class T>
void norm_rows(const RmsNorm& args, Cpu& cpu) {
  const auto width = static_cast<std::size_t>(args.width);
  cpu.parallel_for(
      static_cast<std::size_t>(args.rows),
      [&](std::size_t row, int) HWY_ATTR {
        norm_row(args, static_cast<const T*>(args.x) + row * width,
                 static_cast<const T*>(args.weight), static_cast<T*>(args.out) + row * width);
      },
      std::max<std::size_t>(1, kElements / width));
}

// Cosines, then sines, of position * frequency. The angle is reduced in double: at position 10^5 an
// angle in fp32 would be off by 0.004.
HWY_INLINE void cosines_and_sines(double position, const float* frequencies, std::size_t n,
                                  float* to) {
  constexpr double kTwoPi = 6.283185307179586476925;
  const hn::CappedTag<double, hn::MaxLanes(hn::ScalableTag<double>())> dd;
  const hn::Rebind<float, decltype(dd)> df;
  const auto angles = [&](auto d_double, auto d_float, std::size_t i) HWY_ATTR {
    const auto frequency = hn::PromoteTo(d_double, hn::LoadU(d_float, frequencies + i));
    const auto turns = hn::Mul(frequency, hn::Set(d_double, position / kTwoPi));
    const auto part = hn::Sub(turns, hn::Round(turns));
    const auto angle = hn::DemoteTo(d_float, hn::Mul(part, hn::Set(d_double, kTwoPi)));
    hn::StoreU(hn::Cos(d_float, angle), d_float, to + i);
    hn::StoreU(hn::Sin(d_float, angle), d_float, to + n + i);
  };
  const std::size_t lanes = hn::Lanes(dd);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) angles(dd, df, i);
  for (; i < n; ++i) angles(hn::CappedTag<double, 1>(), One(), i);
}

template <class T>
void rotate_heads(const Rope& args, Cpu& cpu) {
  const auto heads = static_cast<std::size_t>(args.heads);
  const auto dim = static_cast<std::size_t>(args.head_dim);
  const auto half = static_cast<std::size_t>(args.rotary_dim / 2);
  auto* tables = static_cast<float*>(
      cpu.scratch(static_cast<std::size_t>(cpu.threads()) * 2 * half * sizeof(float)));
  cpu.parallel_for(
      static_cast<std::size_t>(args.tokens),
      [&](std::size_t token, int worker) HWY_ATTR {
        float* cosine = tables + static_cast<std::size_t>(worker) * 2 * half;
        const float* sine = cosine + half;
        if (half > 0) cosines_and_sines(args.positions[token], args.frequencies, half, cosine);
        for (std::size_t head = 0; head < heads; ++head) {
          const std::size_t base = (token * heads + head) * dim;
          const T* x = static_cast<const T*>(args.x) + base;
          T* out = static_cast<T*>(args.out) + base;
          in_strips(half, [&](auto d, std::size_t i) HWY_ATTR {
            const auto a = load_floats(d, x + i), b = load_floats(d, x + half + i);
            const auto c = hn::LoadU(d, cosine + i), s = hn::LoadU(d, sine + i);
            store_floats(d, hn::NegMulAdd(b, s, hn::Mul(a, c)), out + i);
            store_floats(d, hn::MulAdd(a, s, hn::Mul(b, c)), out + half + i);
          });
          if (x != out) std::memcpy(out + 2 * half, x + 2 * half, (dim - 2 * half) * sizeof(T));
        }
      },
      std::max<std::size_t>(1, kElements / (heads * dim)));
}

// x / (1 + e^-y): SiLU with y = x. GELU's tanh form is the same with y = 2 sqrt(2/pi) (x + 0.044715
// x^3), as (1 + tanh u) / 2 = 1 / (1 + e^-2u). Above e^100 infinity is meant, and x / inf = 0.
template <class D>
HWY_INLINE hn::Vec<D> activated(D d, hn::Vec<D> x, Activation activation) {
  auto y = x;
  if (activation == Activation::gelu_tanh) {
    const auto cube = hn::Mul(hn::Mul(x, x), x);
    y = hn::Mul(hn::Set(d, 1.5957691216057308f), hn::MulAdd(hn::Set(d, 0.044715f), cube, x));
  }
  const auto power = hn::Exp(d, hn::Min(hn::Neg(y), hn::Set(d, 100.0f)));
  return hn::Div(x, hn::Add(hn::Set(d, 1.0f), power));
}

// body(d, i) over [0, elements), in parts over the threads.
template <class Body>
HWY_INLINE void everywhere(std::size_t elements, Cpu& cpu, const Body& body) {
  cpu.parallel_for((elements + kElements - 1) / kElements, [&](std::size_t part, int) HWY_ATTR {
    const std::size_t first = part * kElements;
    in_strips(std::min(kElements, elements - first),
              [&](auto d, std::size_t i) HWY_ATTR { body(d, first + i); });
  });
}

template <class T>
void gate_rows(const GatedUnit& args, Cpu& cpu) {
  const auto* gate = static_cast<const T*>(args.gate);
  const auto* up = static_cast<const T*>(args.up);
  auto* out = static_cast<T*>(args.out);
  everywhere(static_cast<std::size_t>(args.rows) * static_cast<std::size_t>(args.width), cpu,
             [&](auto d, std::size_t i) HWY_ATTR {
               const auto value = activated(d, load_floats(d, gate + i), args.activation);
               store_floats(d, hn::Mul(value, load_floats(d, up + i)), out + i);
             });
}

template <class T>
void embed_rows(const Embedding& args, Cpu& cpu) {
  const auto width = static_cast<std::size_t>(args.width);
  cpu.parallel_for(
      static_cast<std::size_t>(args.tokens),
      [&](std::size_t token, int) HWY_ATTR {
        const T* row =
            static_cast<const T*>(args.table) + static_cast<std::size_t>(args.ids[token]) * width;
        T* out = static_cast<T*>(args.out) + token * width;
        in_strips(width, [&](auto d, std::size_t i) HWY_ATTR {
          store_floats(d, hn::Mul(load_floats(d, row + i), hn::Set(d, args.scale)), out + i);
        });
      },
      std::max<std::size_t>(1, kElements / width));
}

template <class T>
void sum_of(const Add& args, Cpu& cpu) {
  const auto* a = static_cast<const T*>(args.a);
  const auto* b = static_cast<const T*>(args.b);
  auto* out = static_cast<T*>(args.out);
  everywhere(static_cast<std::size_t>(args.elements), cpu, [&](auto d, std::size_t i) HWY_ATTR {
    store_floats(d, hn::Add(load_floats(d, a + i), load_floats(d, b + i)), out + i);
  });
}

void run_norm(const RmsNorm& args, Cpu& cpu) {
  with_elements(args.format,
                [&](auto element) { norm_rows<typename decltype(element)::type>(args, cpu); });
}
void run_rope(const Rope& args, Cpu& cpu) {
  with_elements(args.format,
                [&](auto element) { rotate_heads<typename decltype(element)::type>(args, cpu); });
}
void run_gate(const GatedUnit& args, Cpu& cpu) {
  with_elements(args.format,
                [&](auto element) { gate_rows<typename decltype(element)::type>(args, cpu); });
}
void run_embed(const Embedding& args, Cpu& cpu) {
  with_elements(args.format,
                [&](auto element) { embed_rows<typename decltype(element)::type>(args, cpu); });
}
void run_add(const Add& args, Cpu& cpu) {
  with_elements(args.format,
                [&](auto element) { sum_of<typename decltype(element)::type>(args, cpu); });
}

}  // namespace HWY_NAMESPACE
}  // namespace kvlane::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvlane::kernels {
HWY_EXPORT(run_norm);
HWY_EXPORT(run_rope);
HWY_EXPORT(run_gate);
HWY_EXPORT(run_embed);
HWY_EXPORT(run_add);

namespace cpu {

void rms_norm(const RmsNorm& args, Cpu& cpu) {
  require(problem(args));
  if (args.rows == 0 || args.width == 0) return;
  HWY_DYNAMIC_DISPATCH(run_norm)(args, cpu);
}

void rope(const Rope& args, Cpu& cpu) {
  require(problem(args));
  if (args.tokens == 0 || args.heads == 0 || args.head_dim == 0) return;
  HWY_DYNAMIC_DISPATCH(run_rope)(args, cpu);
}

void gated_unit(const GatedUnit& args, Cpu& cpu) {
  require(problem(args));
  if (args.rows == 0 || args.width == 0) return;
  HWY_DYNAMIC_DISPATCH(run_gate)(args, cpu);
}

void embedding(const Embedding& args, Cpu& cpu) {
  require(problem(args));
  if (args.tokens == 0 || args.width == 0) return;
  HWY_DYNAMIC_DISPATCH(run_embed)(args, cpu);
}

void add(const Add& args, Cpu& cpu) {
  require(problem(args));
  if (args.elements == 0) return;
  HWY_DYNAMIC_DISPATCH(run_add)(args, cpu);
}

}  // namespace cpu
}  // namespace kvlane::kernels
#endif
