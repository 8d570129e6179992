// cuBLAS behind the interface of gemm, on a GPU only: which matrix is which, and the formats.

#include <doctest/doctest.h>

#include "kernels/gemm/cuda.h"
#include "tests/support/cuda_kv.h"

using namespace kvlane::kernels;
using namespace kvlane::kernels::testing;

TEST_CASE("gemm: products are the reference's") {
  INFO("seed ", run_seed());
  Random random(131);
  const cuda::Blas blas;
  const int shapes[][3] = {{1, 1, 1}, {3, 70, 33}, {64, 17, 128}, {5, 6, 0}, {0, 4, 4}};
  for (Format format : {Format::fp32, Format::fp16, Format::bf16}) {
    for (const auto& shape : shapes) {
      const int m = shape[0], n = shape[1], k = shape[2];
      CAPTURE(m);
      CAPTURE(n);
      CAPTURE(k);
      CAPTURE(to_string(format));
      const auto elements = static_cast<std::size_t>(m * n);
      const Buffer a = normal_tensor(random, static_cast<std::size_t>(m * k), format);
      const Buffer b = normal_tensor(random, static_cast<std::size_t>(n * k), format);
      Buffer expected(elements * bytes_of(format));
      ref::gemm({m, n, k, format, a.data(), b.data(), expected.data()});
      const auto device_a = to_device(a), device_b = to_device(b);
      const DeviceArray<std::byte> out(elements * bytes_of(format));
      cuda::gemm({m, n, k, format, device_a.data(), device_b.data(), out.data()}, blas, nullptr);
      CHECK(worst_error(out.host().data(), expected.data(), format, elements) <=
            allowed_error(format, static_cast<std::size_t>(k)));
    }
  }
}
