// Tests of CUDA kernels on a real GPU; without one they are skipped (ctest takes 77 as that).
#define DOCTEST_CONFIG_IMPLEMENT  // NOLINT(readability-identifier-naming)
#include <doctest/doctest.h>

#include <cstdio>

#include "kernels/common/cuda_device.h"

int main(int argc, char** argv) {
  namespace cuda = kvlane::kernels::cuda;
  if (cuda::devices() == 0) {
    std::fprintf(stderr, "skipped: no GPU\n");
    return 77;
  }
  const cuda::DeviceInfo info = cuda::device_info(0);
  std::printf("%s, compute capability %d.%d\n", info.name.c_str(), info.capability / 10,
              info.capability % 10);
  return doctest::Context(argc, argv).run();
}
