#pragma once
// The message of the InputError that a call throws, or "no error".

#include <string>

#include "sim/base/input_error.h"

namespace kvlane::test {

template <class F>
std::string error_of(F call) {
  try {
    call();
  } catch (const InputError& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace kvlane::test
