// Vectors times a small matrix that stays in a cache: out[r][j] = sum over i of x[r][i] *
// matrix[i][j], fp32. What hashing keys and keeping a few of their channels have in common.
// For a file that Highway compiles once per instruction set, as simd-inl.h.

#if defined(KVLANE_KERNELS_COMMON_ROW_PRODUCT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef KVLANE_KERNELS_COMMON_ROW_PRODUCT_INL_H
#undef KVLANE_KERNELS_COMMON_ROW_PRODUCT_INL_H
#else
#define KVLANE_KERNELS_COMMON_ROW_PRODUCT_INL_H
#endif

#include <cstddef>

#include "kernels/common/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvlane::kernels {
namespace HWY_NAMESPACE {

inline constexpr std::size_t kProductColumns = 16;  // a matrix is padded to a multiple of these

// Rows of x that are multiplied together.
inline constexpr std::size_t kProductRows = 4;

// Columns [j, j + Vectors * lanes) of `Rows` rows.
template <std::size_t Rows, std::size_t Vectors>
HWY_INLINE void product_block(const float* x, std::size_t inner, const float* matrix,
                              std::size_t columns, std::size_t j, float* out) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  FloatVec sum[Rows][Vectors];
  for (std::size_t r = 0; r < Rows; ++r) {
    for (std::size_t v = 0; v < Vectors; ++v) sum[r][v] = hn::Zero(d);
  }
  for (std::size_t i = 0; i < inner; ++i) {
    const float* row = matrix + i * columns + j;
    FloatVec factor[Vectors];
    for (std::size_t v = 0; v < Vectors; ++v) factor[v] = hn::LoadU(d, row + v * lanes);
    for (std::size_t r = 0; r < Rows; ++r) {
      const auto value = hn::Set(d, x[r * inner + i]);
      for (std::size_t v = 0; v < Vectors; ++v) sum[r][v] = hn::MulAdd(value, factor[v], sum[r][v]);
    }
  }
  for (std::size_t r = 0; r < Rows; ++r) {
    for (std::size_t v = 0; v < Vectors; ++v) {
      hn::StoreU(sum[r][v], d, out + r * columns + j + v * lanes);
    }
  }
}

template <std::size_t Rows>
HWY_INLINE void row_product(const float* x, std::size_t inner, const float* matrix,
                            std::size_t columns, float* out) {
  const std::size_t lanes = hn::Lanes(Floats());
  std::size_t j = 0;
  for (; j + 4 * lanes <= columns; j += 4 * lanes) {
    product_block<Rows, 4>(x, inner, matrix, columns, j, out);
  }
  for (; j < columns; j += lanes) product_block<Rows, 1>(x, inner, matrix, columns, j, out);
}

// `rows` rows (at most kProductRows) of x, columns a multiple of kProductColumns.
HWY_INLINE void row_product(std::size_t rows, const float* x, std::size_t inner,
                            const float* matrix, std::size_t columns, float* out) {
  if (rows == kProductRows) return row_product<kProductRows>(x, inner, matrix, columns, out);
  for (std::size_t r = 0; r < rows; ++r) {
    row_product<1>(x + r * inner, inner, matrix, columns, out + r * columns);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kvlane::kernels
HWY_AFTER_NAMESPACE();

#endif
