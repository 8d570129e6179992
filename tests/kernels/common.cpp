// Formats, one at a time and as vectors; the threads that kernels run on.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/kernels/common.cpp"
#include <hwy/foreach_target.h>

#include "kernels/common/cpu.h"
#include "kernels/common/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvlane::kernels {
namespace HWY_NAMESPACE {

void convert_bf16(const std::uint16_t* from, std::size_t n, float* floats, std::uint16_t* back) {
  to_floats(reinterpret_cast<const Bf16*>(from), n, floats);
  from_floats(floats, n, reinterpret_cast<Bf16*>(back));
}
void round_bf16(const float* from, std::size_t n, std::uint16_t* to) {
  from_floats(from, n, reinterpret_cast<Bf16*>(to));
}
void convert_fp16(const std::uint16_t* from, std::size_t n, float* floats, std::uint16_t* back) {
  to_floats(reinterpret_cast<const Fp16*>(from), n, floats);
  from_floats(floats, n, reinterpret_cast<Fp16*>(back));
}
void round_fp16(const float* from, std::size_t n, std::uint16_t* to) {
  from_floats(from, n, reinterpret_cast<Fp16*>(to));
}
void exponential_of(const float* x, std::size_t n, float* y) {
  const Floats d;
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) {
    hn::StoreU(exp_or_nan(d, hn::LoadU(d, x + i)), d, y + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kvlane::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <doctest/doctest.h>

#include <numeric>
#include <stdexcept>

#include "tests/support/instruction_sets.h"
#include "tests/support/kernel_cases.h"

namespace kvlane::kernels {

HWY_EXPORT(convert_bf16);
HWY_EXPORT(round_bf16);
HWY_EXPORT(convert_fp16);
HWY_EXPORT(round_fp16);
HWY_EXPORT(exponential_of);

namespace {

using namespace testing;

std::vector<std::uint16_t> every_bit_pattern() {
  std::vector<std::uint16_t> all(65536);
  std::iota(all.begin(), all.end(), std::uint16_t{0});
  return all;
}

// Floats around every half-way point of a 16-bit format, and odd ones.
std::vector<float> hard_floats(float (*widen)(std::uint16_t)) {
  std::vector<float> all;
  for (std::uint32_t bits = 0; bits < 65535; ++bits) {
    const float a = widen(static_cast<std::uint16_t>(bits));
    const float b = widen(static_cast<std::uint16_t>(bits + 1));
    if (!std::isfinite(a) || !std::isfinite(b)) continue;
    const float middle = a / 2 + b / 2;
    all.insert(all.end(), {middle, std::nextafter(middle, a), std::nextafter(middle, b)});
  }
  all.insert(all.end(),
             {65519.0f, 65520.0f, -65520.0f, 3e38f, std::numeric_limits<float>::infinity(),
              std::numeric_limits<float>::denorm_min()});
  return all;
}

}  // namespace

TEST_CASE("every 16-bit pattern survives the way to fp32 and back, alone and in vectors") {
  const std::vector<std::uint16_t> all = every_bit_pattern();
  for (bool half : {false, true}) {
    for (std::uint16_t bits : all) {
      const float value = half ? from_fp16(bits) : from_bf16(bits);
      const std::uint16_t back = half ? to_fp16(value) : to_bf16(value);
      if (std::isnan(value)) {
        CHECK(std::isnan(half ? from_fp16(back) : from_bf16(back)));
      } else if (back != bits) {
        FAIL("pattern " << bits << " became " << back);
      }
    }
    for_each_instruction_set([&](const std::string& name) {
      CAPTURE(name);
      std::vector<float> floats(all.size());
      std::vector<std::uint16_t> back(all.size());
      (half ? HWY_DYNAMIC_DISPATCH(convert_fp16) : HWY_DYNAMIC_DISPATCH(convert_bf16))(
          all.data(), all.size(), floats.data(), back.data());
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < all.size(); ++i) {
        const float value = half ? from_fp16(all[i]) : from_bf16(all[i]);
        if (std::isnan(value)) {
          wrong += !std::isnan(floats[i]);
        } else {
          wrong += std::bit_cast<std::uint32_t>(floats[i]) != std::bit_cast<std::uint32_t>(value) ||
                   back[i] != all[i];
        }
      }
      CHECK(wrong == 0);
    });
  }
}

TEST_CASE("rounding is to nearest, ties to even") {
  CHECK(to_bf16(1.00390625f) == 0x3f80);  // half way between 0x3f80 and 0x3f81
  CHECK(to_bf16(1.01171875f) == 0x3f82);  // half way between 0x3f81 and 0x3f82
  CHECK(to_fp16(1.00048828125f) == 0x3c00);
  CHECK(to_fp16(1.00146484375f) == 0x3c02);
  CHECK(to_fp16(0x1p-25f) == 0);  // half of the smallest
  CHECK(to_fp16(0x1.8p-25f) == 1);
  CHECK(to_fp16(65519) == 0x7bff);  // the largest half
  CHECK(to_fp16(65520) == 0x7c00);  // infinity
  for (bool half : {false, true}) {
    std::vector<float> hard = hard_floats(half ? from_fp16 : from_bf16);
    for_each_instruction_set([&](const std::string& name) {
      CAPTURE(name);
      std::vector<std::uint16_t> ours(hard.size());
      (half ? HWY_DYNAMIC_DISPATCH(round_fp16) : HWY_DYNAMIC_DISPATCH(round_bf16))(
          hard.data(), hard.size(), ours.data());
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < hard.size(); ++i) {
        wrong += ours[i] != (half ? to_fp16(hard[i]) : to_bf16(hard[i]));
      }
      CHECK(wrong == 0);
    });
  }
}

TEST_CASE("the exponential: NaN stays NaN, -infinity gives 0, errors of a few ulp") {
  std::vector<float> x = {0, -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN(), -200};
  while (x.size() < 1024) x.push_back(-0.1f * static_cast<float>(x.size()));
  for_each_instruction_set([&](const std::string& name) {
    CAPTURE(name);
    std::vector<float> y(x.size());
    HWY_DYNAMIC_DISPATCH(exponential_of)(x.data(), x.size(), y.data());
    CHECK(y[0] == 1);
    CHECK(y[1] == 0);
    CHECK(std::isnan(y[2]));
    CHECK(y[3] == 0);
    for (std::size_t i = 4; i < x.size() && x[i] > -80; ++i) {
      CHECK(static_cast<double>(y[i]) ==
            doctest::Approx(std::exp(static_cast<double>(x[i]))).epsilon(1e-6));
    }
  });
}

TEST_CASE("every task runs once, by some worker, whatever the grain") {
  for (int threads : {1, 2, 5}) {
    Cpu cpu(threads);
    for (std::size_t tasks : {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{1000}}) {
      for (std::size_t grain : {std::size_t{0}, std::size_t{1}, std::size_t{64}}) {
        std::vector<int> ran(tasks);
        cpu.parallel_for(
            tasks,
            [&](std::size_t task, int worker) {
              if (worker < 0 || worker >= threads) throw std::logic_error("no such worker");
              ++ran[task];
            },
            grain);
        CHECK(std::count(ran.begin(), ran.end(), 1) == static_cast<std::ptrdiff_t>(tasks));
      }
    }
  }
}

TEST_CASE("the first exception of a task comes out, and the threads live on") {
  Cpu cpu(3);
  for (int round = 0; round < 20; ++round) {
    CHECK_THROWS_WITH_AS(cpu.parallel_for(100,
                                          [](std::size_t task, int) {
                                            if (task == 42) throw std::runtime_error("task 42");
                                          }),
                         "task 42", std::runtime_error);
    std::vector<int> ran(50);
    cpu.parallel_for(50, [&](std::size_t task, int) { ran[task] = 1; });
    CHECK(std::accumulate(ran.begin(), ran.end(), 0) == 50);
  }
  CHECK_THROWS_AS(Cpu(0), std::invalid_argument);
}

TEST_CASE("a pinned caller has its processors back when the threads end") {
  const int before = usable_processors();
  for (int round = 0; round < 2; ++round) {
    Cpu cpu(2, true);
    std::vector<int> done(64, 0);
    cpu.parallel_for(done.size(), [&](std::size_t task, int) { ++done[task]; });
    CHECK(std::accumulate(done.begin(), done.end(), 0) == 64);
    CHECK(usable_processors() == 1);
  }
  CHECK(usable_processors() == before);
}

TEST_CASE("scratch is aligned, grows, and stays where it is otherwise") {
  Cpu cpu(1);
  void* first = cpu.scratch(1000);
  CHECK(reinterpret_cast<std::uintptr_t>(first) % 64 == 0);
  CHECK(cpu.scratch(10) == first);
  CHECK(cpu.scratch(1000) == first);
  std::memset(cpu.scratch(100000), 1, 100000);
}

}  // namespace kvlane::kernels
#endif
