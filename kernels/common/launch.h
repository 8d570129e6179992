#pragma once
// The one place that launches kernels; the error state is asked after every launch.

#include <tuple>
#include <utility>

#include "kernels/common/cuda_stream.h"
#include "kernels/common/device.h"
#if defined(__CUDACC__)
#include "kernels/common/cuda_check.h"
#endif

namespace kvlane::kernels::cuda {

struct Launch {
  // NOLINTNEXTLINE(google-explicit-constructor)
  Launch(dim3 grid_size, dim3 block_size, std::size_t dynamic_shared_bytes = 0,
         Stream in_stream = nullptr, const char* at_file = __builtin_FILE(),
         int at_line = __builtin_LINE())
      : grid(grid_size),
        block(block_size),
        shared_bytes(dynamic_shared_bytes),
        stream(in_stream),
        file(at_file),
        line(at_line) {}
  dim3 grid, block;
  std::size_t shared_bytes;
  Stream stream;
  const char* file;
  int line;
};

// launch({grid, block, shared_bytes, stream}, kernel<N>, arguments...).
#if defined(__CUDACC__)
template <typename... P, typename... A>
void launch(const Launch& how, void (*kernel)(P...), A&&... arguments) {
  static_assert(sizeof...(P) == sizeof...(A));
  if (how.shared_bytes > 48 * 1024) {
    check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                               cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(how.shared_bytes)),
          how.file, how.line);
  }
  kernel<<<how.grid, how.block, how.shared_bytes, reinterpret_cast<cudaStream_t>(how.stream)>>>(
      static_cast<P>(arguments)...);
  check(cudaGetLastError(), how.file, how.line);
}
#else
template <typename... P, typename... A>
void launch(const Launch& how, void (*kernel)(P...), A&&... arguments) {
  static_assert(sizeof...(P) == sizeof...(A));
  struct Call {
    void (*kernel)(P...);
    std::tuple<P...> arguments;
  } call{kernel, {static_cast<P>(arguments)...}};
  cuda_host::launch(
      how.grid, how.block, how.shared_bytes,
      [](void* at) {
        const auto* it = static_cast<const Call*>(at);
        std::apply(it->kernel, it->arguments);
      },
      &call, cuda_host::Site{how.file, how.line});
}
#endif

}  // namespace kvlane::kernels::cuda
