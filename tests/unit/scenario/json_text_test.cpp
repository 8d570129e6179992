#include "sim/scenario/json_text.h"

#include <doctest/doctest.h>

using namespace kvlane;

namespace {

JsonFault fault_of(std::string_view text) {
  try {
    parse_json(text);
  } catch (const JsonFault& fault) {
    return fault;
  }
  FAIL("no fault in " << text);
  return {};
}

}  // namespace

TEST_CASE("parse_json: the first byte that is none, a zero byte before all else") {
  CHECK(parse_json(R"({"a": 1})")["a"] == 1);
  const JsonFault syntax = fault_of("{\n\"a\": x}");
  CHECK(syntax.kind == JsonFault::Kind::syntax);
  CHECK(place_of_byte("{\n\"a\": x}", "f", syntax.byte).to_string() == "f:2:6");
  using std::string_view_literals::operator""sv;
  const JsonFault zero = fault_of("{\"a\": 1}\0 trailing"sv);
  CHECK(zero.kind == JsonFault::Kind::zero_byte);
  CHECK(zero.byte == 9);
  CHECK(fault_of(R"({"a": 1e999})").kind == JsonFault::Kind::range);
  CHECK(fault_of("").kind == JsonFault::Kind::syntax);
}

TEST_CASE("place_of_byte: lines and columns from 1, bytes beyond the end stop there") {
  CHECK(place_of_byte("ab\ncd", "f", 0).to_string() == "f:1:1");
  CHECK(place_of_byte("ab\ncd", "f", 3).to_string() == "f:1:3");
  CHECK(place_of_byte("ab\ncd", "f", 4).to_string() == "f:2:1");
  CHECK(place_of_byte("ab\ncd", "f", 99).to_string() == "f:2:3");
}
