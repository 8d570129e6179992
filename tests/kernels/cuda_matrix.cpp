// mma.sync and ldmatrix of the executor, as mathematics: the maps of elements to registers are
// one-to-one and are the strided layouts that CUTLASS publishes for them
// (cute/atom/mma_traits_sm80), and products agree with doubles.

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <random>
#include <set>

#include "kernels/common/launch.h"
#include "kernels/common/ptx.h"
#include "tests/support/cuda_host/mma.h"
#include "tests/support/cuda_test.h"

namespace cuda = kvlane::kernels::cuda;
using kvlane::kernels::testing::DeviceArray;
using kvlane::kernels::testing::for_each_order;

namespace {

// Offset of a lane and element in a layout ((4,8),(elements...)):((lane strides),(element
// strides)).
int strided(int lane, int element, std::array<int, 2> lane_strides,
            const std::vector<std::pair<int, int>>& shape_and_stride) {
  int at = lane % 4 * lane_strides[0] + lane / 4 * lane_strides[1];
  for (auto [extent, stride] : shape_and_stride) {
    at += element % extent * stride;
    element /= extent;
  }
  return at;
}

template <typename Map, typename Offset>
void check_map(Map map, int elements, int rows, int columns, Offset offset) {
  std::set<int> places;
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < elements; ++i) {
      const cuda_host::Place at = map(lane, i);
      REQUIRE(at.row >= 0);
      REQUIRE(at.row < rows);
      REQUIRE(at.column >= 0);
      REQUIRE(at.column < columns);
      places.insert(at.row * columns + at.column);
      CHECK(offset(lane, i) == at.column * rows + at.row);
    }
  }
  CHECK(places.size() == static_cast<std::size_t>(rows * columns));
  CHECK(places.size() == static_cast<std::size_t>(32 * elements));
}

template <typename T>
struct Operands {
  const std::uint32_t* a;  // [32][4]
  const std::uint32_t* b;  // [32][2]
  T* c;                    // [32][4]
};

template <typename T, void (*kMultiply)(T (&)[4], const std::uint32_t (&)[4],
                                        const std::uint32_t (&)[2], const char*, int)>
__global__ void multiply_once(Operands<T> o) {
  const std::size_t lane = threadIdx.x;
  std::uint32_t a[4], b[2];
  T c[4];
  for (std::size_t i = 0; i < 4; ++i) a[i] = o.a[lane * 4 + i];
  for (std::size_t i = 0; i < 2; ++i) b[i] = o.b[lane * 2 + i];
  for (std::size_t i = 0; i < 4; ++i) c[i] = o.c[lane * 4 + i];
  kMultiply(c, a, b, __FILE__, __LINE__);
  for (std::size_t i = 0; i < 4; ++i) o.c[lane * 4 + i] = c[i];
}

// Elements of T packed four bytes a register, placed by the map from row-major values.
template <typename T, typename Map>
std::vector<std::uint32_t> packed(Map map, int elements, int columns,
                                  const std::vector<T>& values) {
  const auto per = 4 / sizeof(T), registers = static_cast<std::size_t>(elements) / per;
  std::vector<std::uint32_t> out(32 * registers);
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < elements; ++i) {
      const cuda_host::Place at = map(lane, i);
      const T value = values[static_cast<std::size_t>(at.row * columns + at.column)];
      std::memcpy(
          reinterpret_cast<char*>(out.data()) +
              (static_cast<std::size_t>(lane) * registers * per + static_cast<std::size_t>(i)) *
                  sizeof(T),
          &value, sizeof value);
    }
  }
  return out;
}

double number(__nv_bfloat16 x) { return static_cast<double>(__bfloat162float(x)); }
double number(__half x) { return static_cast<double>(__half2float(x)); }
double number(std::int8_t x) { return x; }
double number(std::uint8_t x) { return x; }

template <typename T, typename Sum, int kK, auto kMultiply, typename Draw>
void check_product(Draw draw, double tolerance) {
  constexpr auto kA = sizeof(T) == 2 ? cuda_host::a_of_k16 : cuda_host::a_of_k32;
  constexpr auto kB = sizeof(T) == 2 ? cuda_host::b_of_k16 : cuda_host::b_of_k32;
  std::vector<T> a(16 * kK), b(kK * 8);
  std::vector<Sum> c(16 * 8);
  for (T& x : a) x = draw();
  for (T& x : b) x = draw();
  for (std::size_t i = 0; i < c.size(); ++i) c[i] = static_cast<Sum>(i % 7) - 3;
  const int per_register = static_cast<int>(4 / sizeof(T));
  const DeviceArray<std::uint32_t> da(packed<T>(kA, 4 * per_register, kK, a)),
      db(packed<T>(kB, 2 * per_register, 8, b));
  std::vector<Sum> fragments(128);
  for (int i = 0; i < 128; ++i) {
    const cuda_host::Place at = cuda_host::c_of(i / 4, i % 4);
    fragments[static_cast<std::size_t>(i)] = c[static_cast<std::size_t>(at.row * 8 + at.column)];
  }
  const DeviceArray<Sum> dc(fragments);
  cuda::launch({1, 32}, multiply_once<Sum, kMultiply>,
               Operands<Sum>{da.data(), db.data(), dc.data()});
  const std::vector<Sum> result = dc.host();
  for (int i = 0; i < 128; ++i) {
    const cuda_host::Place at = cuda_host::c_of(i / 4, i % 4);
    double expected = static_cast<double>(c[static_cast<std::size_t>(at.row * 8 + at.column)]);
    for (int k = 0; k < kK; ++k) {
      expected += number(a[static_cast<std::size_t>(at.row * kK + k)]) *
                  number(b[static_cast<std::size_t>(k * 8 + at.column)]);
    }
    CHECK(std::fabs(static_cast<double>(result[static_cast<std::size_t>(i)]) - expected) <=
          tolerance);
  }
}

// Rows of 8 elements of 4 matrices, one after the other.
template <bool kTransposed>
__global__ void load_matrices(const std::uint16_t* from, std::uint32_t* to) {
  auto& tile = cuda::shared<uint4[32], "tile">();
  const std::size_t lane = threadIdx.x;
  tile[lane] = reinterpret_cast<const uint4*>(from)[lane];
  __syncwarp();
  std::uint32_t r[4];
  if constexpr (kTransposed) {
    cuda::load_matrix_x4_transposed(r, &tile[lane]);
  } else {
    cuda::load_matrix_x4(r, &tile[lane]);
  }
  for (std::size_t i = 0; i < 4; ++i) to[lane * 4 + i] = r[i];
}

}  // namespace

TEST_CASE("fragments of mma.sync are one-to-one and the published layouts") {
  check_map(cuda_host::a_of_k16, 8, 16, 16, [](int lane, int i) {
    return strided(lane, i, {32, 1}, {{2, 16}, {2, 8}, {2, 128}});
  });
  check_map(cuda_host::b_of_k16, 4, 16, 8, [](int lane, int i) {
    // Published for the transposed matrix 8(n) x 16(k), column-major: turned here.
    const int at = strided(lane, i, {16, 1}, {{2, 8}, {2, 64}});
    return at % 8 * 16 + at / 8;
  });
  check_map(cuda_host::c_of, 4, 16, 8, [](int lane, int i) {
    return strided(lane, i, {32, 1}, {{2, 16}, {2, 8}});
  });
  check_map(cuda_host::a_of_k32, 16, 16, 32, [](int lane, int i) {
    return strided(lane, i, {64, 1}, {{4, 16}, {2, 8}, {2, 256}});
  });
  check_map(cuda_host::b_of_k32, 8, 32, 8, [](int lane, int i) {
    const int at = strided(lane, i, {32, 1}, {{4, 8}, {2, 128}});
    return at % 8 * 32 + at / 8;
  });
}

TEST_CASE("mma.sync multiplies") {
  std::mt19937 engine{std::random_device{}()};
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<int> byte(-128, 127);
  for_each_order(8, [&] {
    check_product<__nv_bfloat16, float, 16, cuda::multiply_bf16>(
        [&] { return __float2bfloat16(normal(engine)); }, 2e-5);
    check_product<__half, float, 16, cuda::multiply_fp16>(
        [&] { return __float2half(normal(engine)); }, 2e-5);
    check_product<std::int8_t, std::int32_t, 32, cuda::multiply_s8>(
        [&] { return static_cast<std::int8_t>(byte(engine)); }, 0);
    check_product<std::uint8_t, std::int32_t, 32, cuda::multiply_u8>(
        [&] { return static_cast<std::uint8_t>(byte(engine)); }, 0);
  });
}

TEST_CASE("ldmatrix hands out rows, transposed columns") {
  std::vector<std::uint16_t> values(4 * 64);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint16_t>(i);
  const DeviceArray<std::uint16_t> from(values);
  for_each_order(4, [&] {
    for (bool transposed : {false, true}) {
      const DeviceArray<std::uint32_t> to(128);
      cuda::launch({1, 32}, transposed ? load_matrices<true> : load_matrices<false>, from.data(),
                   to.data());
      const std::vector<std::uint32_t> result = to.host();
      for (std::size_t lane = 0; lane < 32; ++lane) {
        for (std::size_t m = 0; m < 4; ++m) {
          const std::size_t major = lane / 4, minor = 2 * (lane % 4);
          const auto at = [&](std::size_t j) {
            return static_cast<std::uint32_t>(
                64 * m + (transposed ? (minor + j) * 8 + major : major * 8 + minor + j));
          };
          CHECK(result[lane * 4 + m] == (at(0) | at(1) << 16));
        }
      }
    }
  });
}
