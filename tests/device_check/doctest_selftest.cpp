// Faults for doctest/doctest.h: doctest_selftest.sh runs this with the name of one and sees that it
// is reported. Without a name nothing fails.
#define DOCTEST_CONFIG_IMPLEMENT  // NOLINT(readability-identifier-naming)
#include <cstdio>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "doctest/doctest.h"

namespace {

std::string_view planted;
int beyond_require = 0;

void throw_runtime_error() { throw std::runtime_error("the message"); }

}  // namespace

TEST_CASE("what holds") {
  INFO("seed ", 7);
  CHECK(1 + 1 == 2);
  CHECK(std::vector<int>{1, 2} == std::vector<int>{1, 2});
  CHECK(0.1 + 0.2 == doctest::Approx(0.3).epsilon(1e-12));
  REQUIRE(2 > 1);
  CHECK_THROWS_AS(throw_runtime_error(), std::exception);
  CHECK_THROWS_WITH_AS(throw_runtime_error(), "the message", std::runtime_error);
}

TEST_CASE("check") {
  const int two = planted == "check" ? 3 : 2;
  INFO("seed ", 41);
  CAPTURE(two);
  CHECK(two == 2);
}

TEST_CASE("flag") {
  const bool flag = planted != "flag";
  CHECK(flag);
}

TEST_CASE("approx") {
  CHECK((planted == "approx" ? 1.01 : 1.0) == doctest::Approx(1).epsilon(1e-3));
}

TEST_CASE("vector") {
  const std::vector<int> ours{1, planted == "vector" ? 5 : 2};
  CHECK(ours == std::vector<int>{1, 2});
}

TEST_CASE("require") {
  REQUIRE(planted != "require");
  ++beyond_require;
}

TEST_CASE("nothing thrown") {
  CHECK_THROWS_AS(
      [] {
        if (planted != "nothing thrown") throw_runtime_error();
      }(),
      std::runtime_error);
}

TEST_CASE("another exception") {
  CHECK_THROWS_AS(
      [] {
        if (planted == "another exception") throw_runtime_error();
        throw std::invalid_argument("");
      }(),
      std::invalid_argument);
}

TEST_CASE("another message") {
  CHECK_THROWS_WITH_AS(throw_runtime_error(),
                       planted == "another message" ? "words" : "the message", std::runtime_error);
}

TEST_CASE("exception") {
  const int seed = 43;
  CAPTURE(seed);
  if (planted == "exception") throw_runtime_error();
}

int main(int argc, char** argv) {
  if (argc > 1) planted = argv[1];
  const int status = doctest::Context(argc, argv).run();
  std::printf("beyond REQUIRE: %d\n", beyond_require);
  return status;
}
