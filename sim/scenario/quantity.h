#pragma once
// Numbers with units, as they stand in files: `25 Gbps`, `2 us`, `64 KiB`, `119.5 TFLOPS`,
// `7 Mmsg/s`, `5.9 USD/h`, `20 %`. Decimal prefixes are powers of 1000, KiB/MiB/GiB/TiB of 1024;
// b is a bit, B a byte; case matters. Integer results are exact (128-bit decimal arithmetic).

#include <cstdint>
#include <string>
#include <string_view>

#include "sim/base/input_error.h"

namespace kvlane {

enum class UnitFamily : std::uint8_t {
  time,          // ps ns us ms s min h
  size,          // B KB MB GB TB KiB MiB GiB TiB
  rate,          // bps ... Tbps, and B/s ... TiB/s; the base is bit/s
  byte_rate,     // the same words; the base is byte/s
  compute,       // FLOPS OPS with prefixes, TOPS; the base is operations a second
  message_rate,  // msg/s Kmsg/s Mmsg/s Gmsg/s
  price,         // USD/h
  share          // %; the base is 1
};

// "a rate such as `25 Gbps`"
std::string_view example_of(UnitFamily family);
// Regular expression of the texts of a family, for the JSON Schema.
std::string pattern_of(UnitFamily family);

// In base units. Throws InputError.
double parse_quantity(std::string_view text, UnitFamily family, const SourcePlace& place);
// In whole picoseconds, bytes or bits a second, rounded to the nearest; a value that is not zero
// but rounds to zero is an error.
std::int64_t parse_integer_quantity(std::string_view text, UnitFamily family,
                                    const SourcePlace& place);

// Plain numbers. NaN, infinity, overflow and trailing text are errors.
std::int64_t parse_integer(std::string_view text, const SourcePlace& place);
double parse_number(std::string_view text, const SourcePlace& place);

// The shortest text that reads back as the same value: "25 Gbps", "64 KiB", "1.5 us".
std::string format_time(std::int64_t picoseconds);
std::string format_size(std::int64_t bytes);
std::string format_rate(std::int64_t bits_per_second);

}  // namespace kvlane
