// The CPU device: every kernel of the grid runs over operands that fit, and none where they do not.

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "calibrate/measure/device.h"
#include "calibrate/measure/grid.h"
#include "calibrate/measure/operands.h"
#include "sim/gpu/kernel_work.h"

using namespace kvlane;
using namespace kvlane::calibrate;

namespace {

ModelSpec tiny_model() {
  ModelSpec model;
  model.hidden = 128;
  LayerSpec layer;
  layer.query_heads = 4;
  layer.kv_heads = 2;
  layer.head_dim = layer.value_head_dim = layer.k_width = layer.v_width = 64;
  layer.ffn_parameters = layer.ffn_active_parameters = 3 * 128 * 256;
  model.layers.assign(1, layer);
  return model;
}

}  // namespace

TEST_CASE("device: the smallest shape of every kernel runs, twice, and takes time") {
  const auto device = open_device("cpu", 2, 16 << 20);
  CHECK(device->is_cpu());
  CHECK(device->machine().threads == 2);
  std::vector<Sample> shapes = kernel_grid({tiny_model()}, device->gemm_dtype(), GridSize::quick);
  for (const bool links : {false, true}) {
    for (Sample& shape :
         links ? link_grid(true, GridSize::quick) : memory_grid(true, GridSize::quick))
      shapes.push_back(std::move(shape));
  }
  std::set<std::string> kernels;
  for (const Sample& shape : shapes) {
    if (!kernels.insert(shape.kernel + shape.variant).second) continue;
    CAPTURE(shape.kernel);
    const Call call = device->prepare(shape);
    REQUIRE(call);
    CHECK(device->run(call) > 0);
    CHECK(device->run(call) > 0);
    CHECK_FALSE(device->library(shape.kernel).empty());
  }
  CHECK(kernels.size() >= costed_kernels().size() + 4);
}

TEST_CASE("device: operands beyond its memory give no call") {
  const auto device = open_device("cpu", 1, 1 << 20);
  Sample large;
  large.kernel = "gemm";
  large.dtype = "fp32";
  large.shape = {1024, 1024, 1024};
  CHECK_FALSE(device->prepare(large));
  large.shape = {64, 64, 64};
  CHECK(device->prepare(large));
}

TEST_CASE("device: words that name none") {
  CHECK_THROWS_AS(open_device("tpu", 0), std::invalid_argument);
  CHECK_THROWS_AS(open_device("cuda", 0), std::invalid_argument);
  CHECK_THROWS_AS(open_device("cuda:", 0), std::invalid_argument);
  CHECK_THROWS_AS(open_device("cuda:x", 0), std::invalid_argument);
  CHECK_THROWS_AS(open_device("cuda:-1", 0), std::invalid_argument);
  CHECK_THROWS_AS(open_device("cuda:99999999999", 0), std::invalid_argument);
  CHECK_THROWS_AS(open_device("cuda:0.9", 0), std::invalid_argument);
}

TEST_CASE("device: a GPU is opened by whom the build has for it; without CUDA an error says so") {
  try {
    open_device("cuda:3", 2);
    FAIL("no GPU, no error");
  } catch (const NoDevice& error) {
    const std::string text = error.what();
    CHECK(text.find("device cuda:3: this program was built without CUDA") == 0);
    CHECK(text.find("expected cpu") != std::string::npos);
  }
  std::vector<std::int64_t> asked;
  const OpenGpu open = [&](int number, int threads, std::int64_t bytes) {
    asked = {number, threads, bytes};
    return std::unique_ptr<Device>();
  };
  CHECK(open_device("cuda:3", 2, 4096, open) == nullptr);
  CHECK(asked == std::vector<std::int64_t>{3, 2, 4096});
}

namespace {

struct SmallOperands {
  std::vector<std::byte> values = std::vector<std::byte>(1 << 16);
  std::vector<std::byte> results = std::vector<std::byte>(1 << 16);
  Operands operands{{values.data(), values.size()}, {results.data(), results.size()}, std::memcpy};
};

}  // namespace

TEST_CASE("operands: a selection is ascending, without repetition, in runs") {
  SmallOperands small;
  for (const int run : {1, 8}) {
    const int tokens = 1000, selected = 203, rows = 3;
    const std::vector<std::int32_t> index = selection(small.operands, rows, tokens, selected, run);
    REQUIRE(index.size() == static_cast<std::size_t>(rows * selected));
    for (int row = 0; row < rows; ++row) {
      int neighbours = 0;
      for (int i = 0; i < selected; ++i) {
        const std::int32_t token = index[static_cast<std::size_t>(row * selected + i)];
        CHECK(token >= 0);
        CHECK(token < tokens);
        if (i == 0) continue;
        const std::int32_t before = index[static_cast<std::size_t>(row * selected + i - 1)];
        CHECK(token > before);
        neighbours += token == before + 1 ? 1 : 0;
      }
      // 203 rows in runs of 8: 25 whole ones and a rest, 7 neighbours each.
      if (run == 8) CHECK(neighbours >= 25 * 7 + 2);
      if (run == 1) CHECK(neighbours < 100);
    }
  }
}

TEST_CASE("operands: values are finite as bf16 and as fp32; pieces end where the memory does") {
  SmallOperands small;
  Operands& operands = small.operands;
  const float* values = operands.in<float>(1 << 13);
  for (int i = 0; i < 1 << 13; ++i) {
    CHECK(std::abs(values[i]) >= 0.5F);
    CHECK(std::abs(values[i]) < 2.02F);
  }
  CHECK(operands.in<std::byte>(1 << 15) == reinterpret_cast<const std::byte*>(values + (1 << 13)));
  CHECK_THROWS_AS(operands.in<std::byte>(1), NoRoom);
  CHECK_THROWS_AS(operands.out<std::byte>((1 << 16) + 1), NoRoom);
  const std::vector<std::int32_t> numbers = {3, 1, 2};
  const std::int32_t* list = operands.list(numbers);
  CHECK(std::vector<std::int32_t>(list, list + 3) == numbers);
  CHECK(reinterpret_cast<const std::byte*>(list) == small.results.data());
  CHECK(operands.out<std::byte>(1) == small.results.data() + 256);
  operands.reset();
  CHECK(operands.in<float>(1 << 14) == values);
}
