// OpenBLAS behind our interface: which operand is transposed, what the strides are.

#include <doctest/doctest.h>

#include <stdexcept>

#include "kernels/gemm/kernel.h"
#include "tests/support/kernel_cases.h"

using namespace kvlane::kernels;
using namespace kvlane::kernels::testing;

TEST_CASE("the product is the reference's") {
  INFO("KVLANE_SEED=" << run_seed());
  Random random(1);
  for (int round = 0; round < 20; ++round) {
    const int m = random.between(0, 40), n = random.between(1, 70), k = random.between(0, 90);
    const auto size = static_cast<std::size_t>(m * n);
    const Buffer a = normal_tensor(random, static_cast<std::size_t>(m * k), Format::fp32);
    const Buffer b = normal_tensor(random, static_cast<std::size_t>(n * k), Format::fp32);
    Buffer expected(size * 4), out(size * 4);
    Gemm args{m, n, k, Format::fp32, a.data(), b.data(), expected.data()};
    ref::gemm(args);
    args.out = out.data();
    cpu::gemm(args, random.between(1, 2));
    CHECK(worst_error(out.data(), expected.data(), Format::fp32, size) <=
          allowed_error(Format::fp32, static_cast<std::size_t>(k)));
  }
}

TEST_CASE("16-bit formats are refused on the CPU") {
  Gemm args{1, 1, 1, Format::bf16, &args, &args, &args};
  CHECK_THROWS_WITH_AS(cpu::gemm(args, 1), "OpenBLAS multiplies fp32 only", std::invalid_argument);
}
