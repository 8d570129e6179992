// NIC curves: known constants come back.

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "calibrate/fit/nic_fit.h"
#include "fit_support.h"
#include "sim/scenario/yaml_tree.h"

using namespace kvlane;
using namespace kvlane::calibrate;
using namespace kvlane::test;

namespace {

NicFile base_nic() {
  return read_nic_file(
      parse_yaml("kind: nic\nname: card\ndescription: a card\n"
                 "rate: {value: 100 Gbps, source: datasheet, from: \"its port\"}\n"
                 "latency: {value: 2 us, source: assumed, from: \"a guess\"}\n"
                 "mtu: {value: 4096 B, source: datasheet, from: \"x\"}\n",
                 "card"));
}

// 100 Gbit/s at 96 %, 5 million messages a second: max(200 ns, bytes / 12e9).
std::vector<Sample> curve() {
  std::vector<Sample> samples;
  for (std::int64_t bytes = 2; bytes <= 8 << 20; bytes *= 2) {
    const double t = std::max(200e-9, static_cast<double>(bytes) / 12e9);
    samples.push_back(sample_of("nic_message", {bytes, 1}, t));
    samples.back().dtype = "";
  }
  return samples;
}

std::string error_of(const std::vector<Sample>& samples, const NicFile& base) {
  try {
    fit_nic(samples, base, "card");
  } catch (const FitError& error) {
    return error.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("fit_nic: message rate and efficiency, every second size held out") {
  const NicFit fit = fit_nic(curve(), base_nic(), "fitted");
  CHECK(fit.nic.spec.name == "fitted");
  CHECK(fit.nic.spec.message_rate == doctest::Approx(5e6).epsilon(1e-3));
  CHECK(fit.nic.spec.efficiency == doctest::Approx(0.96).epsilon(1e-3));
  CHECK(fit.fitted == 12);  // of 23 sizes
  CHECK(fit.held_out.count == 11);
  CHECK(fit.held_out.mean < 1e-3);
  CHECK(fit.nic.spec.latency == base_nic().spec.latency);
  CHECK(fit.nic.sources.at("efficiency").source == Source::table);
  CHECK(fit.nic.sources.at("rate").from == "its port");
}

TEST_CASE("fit_nic: latency of small messages, where it was measured") {
  std::vector<Sample> samples = curve();
  // Median of 1.5, 1.6 and 1.7 us; a large message says nothing about it.
  samples.push_back(sample_of("nic_latency", {2}, 1.6e-6));
  samples.push_back(sample_of("nic_latency", {64}, 1.7e-6));
  samples.push_back(sample_of("nic_latency", {256}, 1.5e-6));
  samples.push_back(sample_of("nic_latency", {257}, 9e-6));
  CHECK(fit_nic(samples, base_nic(), "card").nic.spec.latency == Duration(1'600'000));
}

TEST_CASE("fit_nic: the file reads back") {
  const NicFit fit = fit_nic(curve(), base_nic(), "fitted");
  const NicFile again = read_nic_file(parse_yaml(nic_text(fit.nic), "written"));
  CHECK(again.spec.name == "fitted");
  CHECK(again.spec.message_rate == fit.nic.spec.message_rate);
  CHECK(again.spec.efficiency == fit.nic.spec.efficiency);
  CHECK(again.spec.error == fit.nic.spec.error);
  CHECK(again.spec.rate == fit.nic.spec.rate);
  CHECK(again.spec.latency == fit.nic.spec.latency);
  CHECK(nic_text(again) == nic_text(fit.nic));
}

TEST_CASE("fit_nic: what cannot be fitted") {
  NicFile no_rate = base_nic();
  no_rate.spec.rate = Bandwidth();
  CHECK(error_of(curve(), no_rate) == "the base NIC has no line rate");
  std::vector<Sample> few = curve();
  few.resize(7);
  CHECK(error_of(few, base_nic()) ==
        "nic_message: 4 sizes to fit and 3 held out; expected at least 4 each for 2 constants");
  std::vector<Sample> two = curve();
  two[3].variant = "lib-2";
  CHECK(error_of(two, base_nic()).find("several variants") != std::string::npos);
  // A line that is slower than what was measured.
  NicFile slow = base_nic();
  slow.spec.rate = Bandwidth::gbit_per_sec(50);
  const NicFit fit = fit_nic(curve(), slow, "card");
  CHECK(fit.nic.spec.efficiency == 1);
  CHECK(fit.warnings.size() == 1);
}
