#pragma once
// Loops of tests over the instruction sets that Highway chose a kernel's code for.

#include <hwy/targets.h>

#include <cstdint>
#include <cstdio>
#include <string>

namespace kvlane::kernels::testing {

// Runs body(name) once for every instruction set that this processor and this build have: AVX-512,
// AVX2, SSSE3. Says which it could not run.
template <typename Body>
void for_each_instruction_set(Body&& body) {
  const std::int64_t supported = hwy::SupportedTargets() & HWY_TARGETS;  // and compiled
  for (std::int64_t target : {HWY_AVX3_DL, HWY_AVX3, HWY_AVX2, HWY_SSSE3}) {
    if ((supported & target) == 0) {
      std::fprintf(stderr, "not run here: %s (the processor or this build lacks it)\n",
                   hwy::TargetName(target));
      continue;
    }
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body(std::string(hwy::TargetName(target)));
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace kvlane::kernels::testing
