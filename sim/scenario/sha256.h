#pragma once
// SHA-256 (FIPS 180-4) of input files, so that a result names exactly what it was made from. Own
// code, since the alternatives would make a cryptographic library a dependency of the simulator
// for one function; held to the NIST test vectors in tests/unit.

#include <string>
#include <string_view>

namespace kvlane {

std::string sha256_hex(std::string_view bytes);  // 64 lower-case hex digits

}  // namespace kvlane
