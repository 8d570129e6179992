#pragma once
// Faults planted in copies of small kernels: each must be caught, and the sound version must pass.
// The table of tests/kernels/cuda.cmake says by which detector and with which words.

#include <string>
#include <vector>

namespace planted {

struct Case {
  std::string name;  // "sound.KERNEL" for the version without a fault
  bool (*right)();   // runs it once under the current order; is the result right?
};

// One a file; kFault 0 is the sound version.
std::vector<Case> block_cases();
std::vector<Case> warp_cases();
std::vector<Case> bin_cases();
std::vector<Case> copy_cases();

}  // namespace planted
