// planted NAME [ORDERS]: runs one case under so many orders of threads (30). Exit code 0: nothing
// noticed by the executor or the reference; 2: wrong results; 3: the executor refused.
// planted sound [ORDERS]: all cases without a fault.

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/kernels/planted.h"
#include "tests/support/cuda_host/executor.h"

namespace {

int run(const planted::Case& one, int orders) {
  int wrong = 0;
  for (int seed = 0; seed < orders; ++seed) {
    cuda_host::settings().seed = static_cast<std::uint64_t>(seed);
    try {
      wrong += one.right() ? 0 : 1;
    } catch (const cuda_host::LaunchError& error) {
      std::printf("%s: %s\n", one.name.c_str(), error.what());
      return 3;
    }
  }
  if (wrong > 0) std::printf("%s: wrong in %d of %d orders\n", one.name.c_str(), wrong, orders);
  return wrong > 0 ? 2 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 1;
  const std::string name = argv[1];
  const int orders = argc > 2 ? std::atoi(argv[2]) : 30;
  int worst = 0, runs = 0;
  for (const auto& cases : {planted::block_cases(), planted::warp_cases(), planted::bin_cases(),
                            planted::copy_cases()}) {
    for (const planted::Case& one : cases) {
      if (one.name != name && one.name.rfind(name + ".", 0) != 0) continue;
      const int result = run(one, orders);
      worst = result > worst ? result : worst;
      ++runs;
    }
  }
  if (runs == 0) {
    std::printf("no case is called %s\n", name.c_str());
    return 1;
  }
  return worst;
}
