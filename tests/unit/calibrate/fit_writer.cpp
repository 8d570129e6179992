// Hardware files that are written read back the same.

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "calibrate/fit/hardware_writer.h"
#include "calibrate/fit/short_value.h"
#include "sim/scenario/gpu_file.h"

using namespace kvlane;
using namespace kvlane::calibrate;

namespace {

std::string read_all(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("hardware_text: every GPU that ships reads back, number by number") {
  int gpus = 0;
  for (const auto& entry : std::filesystem::directory_iterator("scenarios/hardware")) {
    const std::string text = read_all(entry.path());
    if (entry.path().extension() != ".yaml" || text.find("\npeak_flops:") == std::string::npos) {
      continue;
    }
    const GpuSpec gpu = read_gpu(text, entry.path().string());
    const GpuSpec again = read_gpu(hardware_text(gpu), "written");
    // All values, units, sources, texts, errors and high ends of domains.
    CHECK(show_gpu_json(gpu) == show_gpu_json(again));
    CHECK(gpu.pcie_h2d == again.pcie_h2d);
    CHECK(gpu.source == again.source);
    CHECK(gpu.source_text == again.source_text);
    for (const auto& [kernel, fit] : gpu.fits) {
      REQUIRE(again.fits.at(kernel).domain.size() == fit.domain.size());
      for (std::size_t i = 0; i < fit.domain.size(); ++i) {
        CHECK(again.fits.at(kernel).domain[i].low == fit.domain[i].low);
      }
    }
    CHECK(hardware_text(again) == hardware_text(gpu));
    ++gpus;
  }
  CHECK(gpus >= 16);
}

TEST_CASE("hardware_text: texts with quotes and backslashes; a number without a source") {
  GpuSpec gpu = read_gpu(read_all("scenarios/hardware/h100.yaml"), "h100");
  gpu.source_text["gemm_p"] = "a \"quote\", a \\, {braces}: # no comment";
  CHECK(read_gpu(hardware_text(gpu), "written").source_text.at("gemm_p") ==
        gpu.source_text.at("gemm_p"));
  gpu.source_text["gemm_p"] = "two\nlines";
  CHECK(read_gpu(hardware_text(gpu), "written").source_text.at("gemm_p") == "two lines");
  gpu.source.erase("gemm_p");
  CHECK_THROWS_AS(hardware_text(gpu), std::logic_error);
}

TEST_CASE("value_text: short, with the unit that suits") {
  CHECK(value_text(6.85e-6, ValueUnit::time) == "6.85 us");
  CHECK(value_text(30.9e-9, ValueUnit::time) == "30.9 ns");
  CHECK(value_text(1e-3, ValueUnit::time) == "1 ms");
  CHECK(value_text(0, ValueUnit::time) == "0 us");
  CHECK(value_text(0.781, ValueUnit::share) == "78.1 %");
  CHECK(value_text(2039e9, ValueUnit::byte_rate) == "2039 GB/s");
  CHECK(value_text(0.8305e9, ValueUnit::byte_rate) == "830.5 MB/s");
  CHECK(value_text(165.2e12, ValueUnit::flops) == "165.2 TFLOPS");
  CHECK(value_text(0, ValueUnit::ops) == "0 OPS");
  CHECK(value_text(16'384, ValueUnit::number) == "16384");
  CHECK(value_text(7.04e6, ValueUnit::message_rate) == "7.04 Mmsg/s");
  CHECK(value_text(Bandwidth::gbyte_per_sec(25)) == "25 GB/s");
  CHECK(value_text(Bandwidth::bits_per_sec(12'345'678'901)) == "1.5432098626 GB/s");
}

TEST_CASE("rounded: four digits, and the text says the same number") {
  CHECK(rounded(6.84567e-6, ValueUnit::time) == 6.846e-6);
  CHECK(rounded(0.781249, ValueUnit::share) == 0.7812);
  CHECK(rounded(99.996, ValueUnit::number) == 100);
  CHECK(rounded(0, ValueUnit::time) == 0);
  for (const double v : {1.23456789e-9, 9.9996e-7, 0.123456, 3.3333e-5, 0.99999}) {
    const double r = rounded(v, ValueUnit::time);
    CHECK(std::abs(r / v - 1) < 5.1e-4);
    CHECK(value_text(r, ValueUnit::time).size() <= 9);
  }
}
