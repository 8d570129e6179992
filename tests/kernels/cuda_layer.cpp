// The layer operations of the GPU's code against their references, into poisoned outputs.

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "kernels/layer/cuda.h"
#include "tests/support/cuda_test.h"
#include "tests/support/kernel_cases.h"

using namespace kvlane::kernels;
using namespace kvlane::kernels::testing;

namespace {

constexpr Format kFormats[] = {Format::fp32, Format::fp16, Format::bf16};
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// `skew` elements past an aligned address.
class DeviceTensor {
 public:
  DeviceTensor(const Buffer& host, Format format, int skew)
      : offset_(size(skew) * bytes_of(format)), bytes_(copied(host, offset_)) {}
  DeviceTensor(std::size_t elements, Format format, int skew)
      : offset_(size(skew) * bytes_of(format)), bytes_(offset_ + elements * bytes_of(format)) {}
  void* data() const { return bytes_.data() + offset_; }
  // Poison in front of a skewed tensor is not what a test wants to look at.
  std::vector<std::uint8_t> host() const {
    std::vector<std::uint8_t> values(bytes_.size() - offset_);
    cuda::copy(values.data(), data(), values.size());
    cuda::synchronize();
    return values;
  }

 private:
  static std::vector<std::uint8_t> copied(const Buffer& host, std::size_t offset) {
    std::vector<std::uint8_t> all(offset + host.bytes());
    const auto* at = static_cast<const std::uint8_t*>(host.data());
    std::copy(at, at + host.bytes(), all.begin() + static_cast<std::ptrdiff_t>(offset));
    return all;
  }
  std::size_t offset_;
  DeviceArray<std::uint8_t> bytes_;
};

template <typename Args>
void compare(const Args& host, Args device, void (*reference)(const Args&),
             void (*backend)(const Args&, cuda::Stream), std::size_t elements, std::size_t terms,
             int skew) {
  CAPTURE(to_string(host.format));
  CAPTURE(elements);
  Buffer expected(elements * bytes_of(host.format));
  Args args = host;
  args.out = expected.data();
  reference(args);
  const DeviceTensor out(elements, host.format, skew);
  device.out = out.data();
  backend(device, nullptr);
  CHECK(worst_error(out.host().data(), expected.data(), host.format, elements) <=
        allowed_error(host.format, terms));
}

void check_norm(Random& random, int rows, int width, Format format, int skew) {
  CAPTURE(width);
  const float deviation = std::ldexp(1.0f, random.between(-4, 4));
  const Buffer x = normal_tensor(random, size(rows * width), format, deviation);
  const Buffer weight = normal_tensor(random, size(width), format);
  const DeviceTensor device_x(x, format, skew), device_weight(weight, format, 0);
  const RmsNorm args{rows,   width, format, x.data(), weight.data(), 1e-5f, random.below(2) == 0,
                     nullptr};
  RmsNorm device = args;
  device.x = device_x.data();
  device.weight = device_weight.data();
  compare(args, device, ref::rms_norm, cuda::rms_norm, size(rows * width), size(width), skew);
}

void check_rope(Random& random, int tokens, int heads, int dim, int rotary, Format format,
                int skew) {
  CAPTURE(dim);
  CAPTURE(rotary);
  std::vector<std::int32_t> positions(size(tokens));
  for (auto& position : positions) position = random.below(131072);
  std::vector<float> frequencies(size(rotary / 2));
  rope_frequencies({.rotary_dim = rotary, .theta = 5e5}, frequencies.data());
  const std::size_t elements = size(tokens * heads * dim);
  const Buffer x = normal_tensor(random, elements, format);
  const DeviceTensor device_x(x, format, skew);
  const DeviceArray<std::int32_t> device_positions(positions);
  const DeviceArray<float> device_frequencies(frequencies);
  const Rope args{
      tokens, heads, dim, rotary, format, x.data(), positions.data(), frequencies.data(), nullptr};
  Rope device = args;
  device.x = device_x.data();
  device.positions = device_positions.data();
  device.frequencies = device_frequencies.data();
  compare(args, device, ref::rope, cuda::rope, elements, 2, skew);
  // In place: the same bits.
  const DeviceTensor apart(elements, format, skew);
  device.out = apart.data();
  cuda::rope(device, nullptr);
  device.out = device_x.data();
  cuda::rope(device, nullptr);
  CHECK(apart.host() == device_x.host());
}

void check_gated(Random& random, int rows, int width, Activation activation, Format format,
                 int skew) {
  const std::size_t elements = size(rows * width);
  const Buffer gate = normal_tensor(random, elements, format, 6);
  const Buffer up = normal_tensor(random, elements, format);
  const DeviceTensor device_gate(gate, format, skew), device_up(up, format, 0);
  const GatedUnit args{rows, width, format, activation, gate.data(), up.data(), nullptr};
  GatedUnit device = args;
  device.gate = device_gate.data();
  device.up = device_up.data();
  compare(args, device, ref::gated_unit, cuda::gated_unit, elements, 1, skew);
}

void check_embedding(Random& random, int tokens, int width, float scale, Format format, int skew) {
  const int vocabulary = random.between(1, 50);
  std::vector<std::int32_t> ids(size(tokens));
  for (auto& id : ids) id = random.below(vocabulary);
  const Buffer table = normal_tensor(random, size(vocabulary * width), format);
  const DeviceTensor device_table(table, format, skew);
  const DeviceArray<std::int32_t> device_ids(ids);
  const Embedding args{tokens, width, vocabulary, format, ids.data(), table.data(), scale, nullptr};
  Embedding device = args;
  device.ids = device_ids.data();
  device.table = device_table.data();
  compare(args, device, ref::embedding, cuda::embedding, size(tokens * width), 1, skew);
}

void check_add(Random& random, int elements, Format format, int skew) {
  const Buffer a = normal_tensor(random, size(elements), format);
  const Buffer b = normal_tensor(random, size(elements), format, 100);
  const DeviceTensor device_a(a, format, skew), device_b(b, format, 0);
  const Add args{elements, format, a.data(), b.data(), nullptr};
  const Add device{elements, format, device_a.data(), device_b.data(), nullptr};
  compare(args, device, ref::add, cuda::add, size(elements), 1, skew);
}

std::vector<float> floats(const DeviceArray<float>& array) { return array.host(); }

}  // namespace

TEST_CASE("layer: odd shapes in many orders") {
  INFO("seed ", run_seed());
  Random random(111);
  int round = 0;
  for_each_order(orders(12), [&] {
    for (Format format : kFormats) {
      const int skew = random.below(3) == 0 ? 1 : 0;
      check_norm(random, random.between(0, 3), random.between(1, 300), format, skew);
      check_norm(random, 2, 8 * random.between(1, 40), format, 0);
      check_rope(random, random.between(1, 4), random.between(1, 5), 80, 32, format, skew);
      check_rope(random, 2, 2, 18, 14, format, 0);
      check_gated(random, random.between(0, 3), random.between(1, 99),
                  ++round % 2 == 0 ? Activation::silu : Activation::gelu_tanh, format, skew);
      check_embedding(random, random.between(0, 5), random.between(1, 70), 1, format, skew);
      check_embedding(random, 3, 8 * random.between(1, 20), std::sqrt(640.0f), format, 0);
      check_add(random, random.between(0, 700), format, skew);
    }
    check_rope(random, 1, 3, 2, 2, Format::fp32, 0);
    check_rope(random, 3, 1, 64, 0, Format::bf16, 0);
  });
}

TEST_CASE("layer: large shapes") {
  INFO("seed ", run_seed());
  Random random(112);
  for_each_order(
      1,
      [&] {
        check_norm(random, 2, 4096, Format::bf16, 0);
        check_norm(random, 2, 9000, Format::bf16, 0);  // more than registers hold
        check_norm(random, 1, 1501, Format::fp16, 1);
        check_rope(random, 20, 8, 128, 128, Format::bf16, 0);
        check_gated(random, 3, 5000, Activation::silu, Format::bf16, 0);
        check_embedding(random, 2, 9000, 1, Format::fp16, 0);
        check_add(random, 40001, Format::bf16, 0);
      },
      4);
}

TEST_CASE("rms_norm where squares leave fp32: the result is right, not 0; NaN and infinity") {
  const std::vector<float> ones(37, 1.0f);
  const DeviceArray<float> weight(ones), out(37);
  for (float value : {3e38f, 3e30f, -2e-30f, 1e-40f, 0.0f}) {
    CAPTURE(value);
    const DeviceArray<float> x(std::vector<float>(37, value));
    cuda::rms_norm({1, 37, Format::fp32, x.data(), weight.data(), 0, false, out.data()}, nullptr);
    for (float y : floats(out)) {
      if (value == 0) {
        CHECK(std::isnan(y));  // 0 / 0
      } else {
        CHECK(y == doctest::Approx(value > 0 ? 1 : -1).epsilon(1e-6));
      }
    }
  }
  // With an epsilon small rows are small.
  const DeviceArray<float> tiny(std::vector<float>(37, 1e-30f));
  cuda::rms_norm({1, 37, Format::fp32, tiny.data(), weight.data(), 1e-6f, false, out.data()},
                 nullptr);
  CHECK(floats(out)[5] == doctest::Approx(1e-27).epsilon(1e-6));
  for (float odd : {std::nanf(""), kInfinity}) {
    std::vector<float> values(74, 1.0f);
    values[3] = odd;
    const DeviceArray<float> x(values), two(74);
    cuda::rms_norm({2, 37, Format::fp32, x.data(), weight.data(), 1e-6f, false, two.data()},
                   nullptr);
    const std::vector<float> ours = floats(two);
    for (std::size_t i = 0; i < 37; ++i) {
      if (std::isnan(odd) || i == 3) {
        CHECK(std::isnan(ours[i]));
      } else {
        CHECK(ours[i] == 0);  // 1 / infinity
      }
      CHECK(ours[37 + i] == doctest::Approx(1).epsilon(1e-5));
    }
  }
}

TEST_CASE("rope: angles of far positions are right to the last bits") {
  const std::vector<float> frequency = {1.0f, 0.1f};
  for (std::int32_t position : {0, 1, 100000, 131071, 2147483647, -5}) {
    CAPTURE(position);
    const DeviceArray<std::int32_t> positions(std::vector<std::int32_t>{position});
    const DeviceArray<float> frequencies(frequency);
    const DeviceArray<float> x(std::vector<float>{1, 1, 0, 0}), out(4);
    cuda::rope(
        {1, 1, 4, 4, Format::fp32, x.data(), positions.data(), frequencies.data(), out.data()},
        nullptr);
    const std::vector<float> ours = floats(out);
    for (std::size_t i = 0; i < 2; ++i) {
      const double angle = static_cast<double>(position) * static_cast<double>(frequency[i]);
      CHECK(std::fabs(static_cast<double>(ours[i]) - std::cos(angle)) < 6e-7);
      CHECK(std::fabs(static_cast<double>(ours[2 + i]) - std::sin(angle)) < 6e-7);
    }
  }
}

TEST_CASE("gated units at the ends of the range; ids outside the vocabulary; bad arguments") {
  const DeviceArray<float> gate(
      std::vector<float>{-kInfinity, kInfinity, std::nanf(""), 1e30f, -1e30f, -150, 150, -0.0f});
  const DeviceArray<float> up(std::vector<float>(8, 1.0f)), out(8);
  for (Activation activation : {Activation::silu, Activation::gelu_tanh}) {
    cuda::gated_unit({1, 8, Format::fp32, activation, gate.data(), up.data(), out.data()}, nullptr);
    const std::vector<float> ours = floats(out);
    CHECK(std::isnan(ours[0]));  // -inf * 0, as in PyTorch
    CHECK(ours[1] == kInfinity);
    CHECK(std::isnan(ours[2]));
    CHECK(ours[3] == 1e30f);
    CHECK(ours[4] == 0);
    CHECK(ours[5] == 0);
    CHECK(ours[6] == 150);
    CHECK(ours[7] == 0);
  }
  const DeviceArray<std::int32_t> ids(std::vector<std::int32_t>{-3, 9});
  const DeviceArray<float> table(std::vector<float>{1, 2}), rows(2);
  cuda::embedding({2, 1, 2, Format::fp32, ids.data(), table.data(), 1, rows.data()}, nullptr);
  CHECK(floats(rows) == std::vector<float>{1, 2});

  float data[8] = {};
  CHECK_THROWS_AS(
      cuda::embedding({2, 1, 0, Format::fp32, ids.data(), table.data(), 1, data}, nullptr),
      std::invalid_argument);
  CHECK_THROWS_AS(cuda::add({-1, Format::fp32, data, data, data}, nullptr), std::invalid_argument);
  CHECK_THROWS_AS(cuda::rms_norm({1, 8, Format::fp32, nullptr, data, 1e-6f, false, data}, nullptr),
                  std::invalid_argument);
  CHECK_THROWS_AS(cuda::rope({1, 1, 4, 3, Format::fp32, data, ids.data(), data, data}, nullptr),
                  std::invalid_argument);
  CHECK_THROWS_AS(
      cuda::gated_unit({1, 8, Format::fp32, Activation::silu, data, nullptr, data}, nullptr),
      std::invalid_argument);
}
