#include <algorithm>
#include <array>

#include "sim/gpu/gpu_spec.h"
#include "sim/gpu/kernel_work.h"
#include "sim/gpu/portable_math.h"

namespace kvlane {

double seconds_of(const KernelCost& cost, const KernelWork& work) {
  const std::array<double, 3> terms = {cost.flops > 0 ? work.flops / cost.flops : 0,
                                       cost.bandwidth > 0 ? work.bytes / cost.bandwidth : 0,
                                       work.items * cost.item};
  const double high = *std::max_element(terms.begin(), terms.end());
  double t0 = cost.t0;
  if (cost.wake > 0 && work.bytes > 0) {
    const double less = cost.alone / work.bytes;  // the eighth power is a step of a factor of two
    const double fourth = less * less * less * less;
    t0 += cost.wake / (1 + fourth * fourth);
  }
  if (high <= 0) return t0;
  double sum = 0;
  for (const double term : terms) sum += portable::pow(term / high, cost.p);
  return t0 + high * portable::pow(sum, 1 / cost.p);
}

}  // namespace kvlane
