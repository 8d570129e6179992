#include "sim/study/crossover.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

using namespace kvlane;

namespace {

double six_digits(double x) { return parse_axis_number(axis_text(x, "", false), {"t"}).value; }

// ratio(x) = (x / 20)^2: a straight line on logarithmic axes that crosses 1 at 20.
double power(double x) { return (x / 20) * (x / 20); }

std::vector<AxisSample> sampled(const std::vector<double>& xs, double (*f)(double)) {
  std::vector<AxisSample> samples;
  for (const double x : xs) samples.push_back({x, f(x)});
  return samples;
}

}  // namespace

TEST_CASE("crossover: a power law is interpolated exactly, then bracketed within the tolerance") {
  const auto found = find_crossovers(sampled({5, 15, 25, 100}, power), 0.01, six_digits, power);
  REQUIRE(found.size() == 1);
  CHECK(found[0].below == Winner::of);
  CHECK(found[0].above == Winner::against);
  CHECK(found[0].grid_low == 15);
  CHECK(found[0].grid_high == 25);
  CHECK(found[0].interpolated == doctest::Approx(20).epsilon(1e-9));
  CHECK(found[0].low <= 20);
  CHECK(found[0].high >= 20);
  CHECK(found[0].high <= found[0].low * 1.01);
  // ln(25/15) / ln(1.01) = 51.3: six halvings.
  CHECK(found[0].runs == 6);
}

TEST_CASE("crossover: every change of winner is found, in rising order") {
  // sin(x) changes sign at pi and 2 pi.
  const auto wave = [](double x) { return std::exp(std::sin(x)); };
  const auto found = find_crossovers(sampled({1, 2, 4, 5, 7}, +wave), 0.001, six_digits, wave);
  REQUIRE(found.size() == 2);
  CHECK(found[0].below == Winner::against);
  CHECK(found[0].low == doctest::Approx(3.14159265).epsilon(0.001));
  CHECK(found[1].below == Winner::of);
  CHECK(found[1].low == doctest::Approx(6.2831853).epsilon(0.001));
}

TEST_CASE("crossover: none where one wins everywhere, and nothing is run") {
  const auto always = [](double) { return 0.5; };
  int runs = 0;
  const auto counted = [&](double x) {
    ++runs;
    return always(x);
  };
  CHECK(find_crossovers(sampled({5, 15, 25}, +always), 0.01, six_digits, counted).empty());
  CHECK(runs == 0);
}

TEST_CASE("crossover: where both become equal is a change too") {
  // auto-switch: better below 20, the same above.
  const auto joins = [](double x) { return x < 20 ? 0.5 : 1.0; };
  const auto found = find_crossovers(sampled({10, 30, 40}, +joins), 0.01, six_digits, joins);
  REQUIRE(found.size() == 1);
  CHECK(found[0].above == Winner::neither);
  CHECK(found[0].low < 20);
  CHECK(found[0].high >= 20);
}

TEST_CASE("crossover: whole numbers end at neighbours") {
  const auto step = [](double x) { return x < 1000.5 ? 0.9 : 1.1; };
  const auto whole = [](double x) { return std::round(x); };
  const auto found = find_crossovers(sampled({900, 1100}, +step), 1e-6, whole, step);
  REQUIRE(found.size() == 1);
  CHECK(found[0].low == 1000);
  CHECK(found[0].high == 1001);
}

TEST_CASE("axis numbers: value, unit and text") {
  const AxisNumber rate = parse_axis_number("25.5 Gbps", {"s.yaml", 3, 4});
  CHECK(rate.value == 25.5);
  CHECK(rate.unit == "Gbps");
  CHECK(!rate.whole);
  CHECK(parse_axis_number("10000", {"s"}).whole);
  CHECK(axis_text(18.75, "Gbps", false) == "18.75 Gbps");
  CHECK(axis_text(19.364916731, "Gbps", false) == "19.3649 Gbps");
  CHECK(axis_text(25, "Gbps", false) == "25 Gbps");
  CHECK(axis_text(123456.7, "", true) == "123457");
  CHECK(axis_text(0.0123456789, "s", false) == "0.0123457 s");
  CHECK_THROWS_AS(parse_axis_number("fast", {"s"}), InputError);
  CHECK_THROWS_AS(parse_axis_number("0 Gbps", {"s"}), InputError);
}

namespace {

// The power law with its crossover moved to 20 f, within 1 to 100.
MovedCrossover moved(double f, double tolerance = 0.01) {
  Crossover nominal;
  nominal.below = Winner::of;
  nominal.above = Winner::against;
  nominal.low = 19.9;
  nominal.high = 20.05;
  return moved_crossover(nominal, 1, 100, tolerance, six_digits,
                         [f](double x) { return power(x / f); });
}

}  // namespace

TEST_CASE("crossover: with other ratios it is found where they cross, to any side") {
  for (const double f : {0.06, 0.3, 0.8, 0.99, 1.0, 1.01, 1.1, 2.0, 4.9}) {
    CAPTURE(f);
    CHECK(moved(f).found);
    CHECK(moved(f).x == doctest::Approx(20 * f).epsilon(1e-6));  // a power law is interpolated
  }
  // In the nominal bracket two runs tell.
  CHECK(moved(1).runs == 2);
}

TEST_CASE("crossover: one that leaves the grid counts as the grid's end") {
  CHECK(!moved(6).found);
  CHECK(moved(6).x == 100);
  CHECK(!moved(0.04).found);
  CHECK(moved(0.04).x == 1);
  // At the very end it is still there: the winner at 100 is the other one.
  CHECK(moved(4.99).found);
}

TEST_CASE("crossover: whole numbers are stepped over, not stood still on") {
  Crossover nominal;
  nominal.below = Winner::of;
  nominal.above = Winner::against;
  nominal.low = 3;
  nominal.high = 4;
  const auto whole = [](double x) {
    return parse_axis_number(axis_text(x, "", true), {"t"}).value;
  };
  // The change lies between 1 and 2, then between 9 and 10, then above 12.
  for (const double at : {1.5, 9.5}) {
    const auto step = [at](double x) { return x < at ? 0.5 : 2.0; };
    const MovedCrossover found = moved_crossover(nominal, 1, 12, 0.01, whole, step);
    CHECK(found.found);
    CHECK(found.x > std::floor(at));
    CHECK(found.x < std::ceil(at));
  }
  CHECK(!moved_crossover(nominal, 1, 12, 0.01, whole, [](double) { return 0.5; }).found);
}
