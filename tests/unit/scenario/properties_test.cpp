// Round trips of quantities: what is written reads back as the same value.

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <array>

#include "sim/scenario/quantity.h"
#include "sim/scenario/yaml_tree.h"

using namespace kvlane;

namespace {

const SourcePlace kHere{"f.yaml", 1, 1};

struct Family {
  UnitFamily unit;
  std::string (*format)(std::int64_t);
};

constexpr std::array<Family, 3> kFamilies{{{UnitFamily::time, format_time},
                                           {UnitFamily::size, format_size},
                                           {UnitFamily::rate, format_rate}}};

}  // namespace

TEST_CASE("format and parse are inverse") {
  for (const Family& family : kFamilies)
    CHECK(rc::check("round trip", [&family] {
      const auto value =
          *rc::gen::inRange<std::int64_t>(0, std::numeric_limits<std::int64_t>::max());
      // Half of the values end in zeros, as people write them.
      const std::int64_t round = *rc::gen::element<std::int64_t>(1, 1000, 1'000'000, 1024);
      const std::int64_t wanted = value / round * round;
      RC_ASSERT(parse_integer_quantity(family.format(wanted), family.unit, kHere) == wanted);
    }));
}

TEST_CASE("a decimal shift of number and unit changes nothing") {
  CHECK(rc::check("5 Gbps = 5000 Mbps", [] {
    const auto value = *rc::gen::inRange<std::int64_t>(1, 1'000'000'000);
    const auto parse = [](const std::string& text) {
      return parse_integer_quantity(text, UnitFamily::rate, kHere);
    };
    RC_ASSERT(parse(std::to_string(value) + " Gbps") == value * 1'000'000'000);
    RC_ASSERT(parse(std::to_string(value) + "000 Mbps") == value * 1'000'000'000);
    RC_ASSERT(parse(std::to_string(value) + "e3 Mbps") == value * 1'000'000'000);
    RC_ASSERT(parse_quantity(std::to_string(value) + " Gbps", UnitFamily::rate, kHere) ==
              static_cast<double>(value) * 1e9);
  }));
}

TEST_CASE("any text is a value or an InputError") {
  CHECK(rc::check("quantities", [](const std::string& text) {
    for (int family = 0; family <= static_cast<int>(UnitFamily::share); ++family) {
      try {
        parse_quantity(text, static_cast<UnitFamily>(family), kHere);
      } catch (const InputError&) {
      }
    }
  }));
  CHECK(rc::check("documents", [](const std::string& text) {
    try {
      parse_yaml(text, "f.yaml");
    } catch (const InputError&) {
    }
  }));
}
