// The references of the layer operations against values computed by PyTorch.

#include <doctest/doctest.h>

#include <cmath>
#include <iterator>
#include <vector>

#include "kernels/layer/kernel.h"
#include "tests/kernels/torch_values.h"

namespace kvlane::kernels {
namespace {

using testing::torch_input;

std::vector<float> input(std::uint32_t salt, std::size_t n) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) {
    values[i] = static_cast<float>(torch_input(salt, static_cast<std::uint32_t>(i)));
  }
  return values;
}

// The reference rounds to fp32.
template <std::size_t N>
void check_near(const std::vector<float>& ours, const double (&torch)[N]) {
  REQUIRE(ours.size() == N);
  for (std::size_t i = 0; i < N; ++i) {
    CAPTURE(i);
    CHECK(std::fabs(ours[i] - torch[i]) <= 0x1p-23 * (std::fabs(torch[i]) + 1e-6));
  }
}

TEST_CASE("rms_norm is PyTorch's") {
  const std::vector<float> x = input(10, 48), weight = input(11, 24);
  std::vector<float> out(48);
  RmsNorm args{2, 24, Format::fp32, x.data(), weight.data(), 1e-5f, false, out.data()};
  ref::rms_norm(args);
  check_near(out, testing::kTorchRmsNorm);
  args.one_plus_weight = true;
  ref::rms_norm(args);
  check_near(out, testing::kTorchRmsNormOnePlus);
}

TEST_CASE("rope_frequencies are PyTorch's") {
  std::vector<float> out(8);
  rope_frequencies({.rotary_dim = 16, .theta = 1e4}, out.data());
  check_near(out, testing::kTorchFrequencies);
  rope_frequencies({.rotary_dim = 16, .theta = 1e6, .scaling = RopeScaling::linear, .factor = 8},
                   out.data());
  check_near(out, testing::kTorchFrequenciesLinear);
  out.resize(64);
  rope_frequencies({.rotary_dim = 128, .theta = 5e5, .scaling = RopeScaling::llama3, .factor = 8},
                   out.data());
  check_near(out, testing::kTorchFrequenciesLlama3);
}

TEST_CASE("rope is PyTorch's, whole and partial heads") {
  const std::int32_t positions[] = {0, 5, 4099};
  std::vector<float> frequencies(8);
  rope_frequencies({.rotary_dim = 16, .theta = 1e4}, frequencies.data());
  const auto rotated = [&](int head_dim) {
    const std::vector<float> x = input(12, static_cast<std::size_t>(6 * head_dim));
    std::vector<float> out(x.size());
    ref::rope(
        {3, 2, head_dim, 16, Format::fp32, x.data(), positions, frequencies.data(), out.data()});
    return out;
  };
  check_near(rotated(16), testing::kTorchRope);
  check_near(rotated(24), testing::kTorchRopePartial);
}

TEST_CASE("gated units are PyTorch's") {
  const std::vector<float> gate = input(13, 32), up = input(14, 32);
  std::vector<float> out(32);
  GatedUnit args{2, 16, Format::fp32, Activation::silu, gate.data(), up.data(), out.data()};
  ref::gated_unit(args);
  check_near(out, testing::kTorchSilu);
  args.activation = Activation::gelu_tanh;
  ref::gated_unit(args);
  check_near(out, testing::kTorchGeluTanh);
}

TEST_CASE("embedding and add are PyTorch's") {
  const std::vector<float> table = input(15, 80);
  const std::int32_t ids[] = {4, 0, 4, 2};
  std::vector<float> out(64);
  ref::embedding({4, 16, 5, Format::fp32, ids, table.data(), 4.0f, out.data()});
  check_near(out, testing::kTorchEmbedding);

  const std::vector<float> a = input(16, 20), b = input(17, 20);
  out.resize(20);
  ref::add({20, Format::fp32, a.data(), b.data(), out.data()});
  check_near(out, testing::kTorchAdd);
}

}  // namespace
}  // namespace kvlane::kernels
