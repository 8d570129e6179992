// The shapes that device_check.sh measures: as text, and those of the models that ship.

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

#include "calibrate/measure/grid.h"
#include "calibrate/measure/shape_list.h"
#include "sim/scenario/input_files.h"
#include "sim/scenario/model_file.h"

using namespace kvlane;
using namespace kvlane::calibrate;

namespace {

constexpr const char* kFile = "calibrate/measure/gpu_shapes.txt";

std::string file_text() {
  std::ifstream file(kFile, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string refusal_of(const std::string& text) {
  try {
    parse_shapes(text, "s.txt");
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("shapes: the file that device_check.sh reads is the grid of the models that ship") {
  const InputFiles files({"scenarios"});
  std::vector<ModelSpec> models;
  for (const std::string& path : files.list("models")) {
    models.push_back(read_model(files.peek(path, {path}), path));
  }
  REQUIRE(models.size() > 10);
  const std::string text =
      "# What device_check.sh measures on a GPU: shapes of scenarios/models. Not by hand: the "
      "test\n"
      "# calibrate_measure compares it, and writes it with KVLANE_UPDATE_SHAPES=1 in its "
      "environment.\n" +
      shapes_text(kernel_grid(models, "bf16", GridSize::full));
  if (std::getenv("KVLANE_UPDATE_SHAPES") != nullptr) {
    REQUIRE(std::getenv("CI") == nullptr);
    std::ofstream(kFile, std::ios::binary) << text;
  }
  const bool same = file_text() == text;
  const std::string advice =
      std::string(kFile) +
      " is not the grid of scenarios/models; KVLANE_UPDATE_SHAPES=1 ctest -R "
      "calibrate_measure writes it anew";
  INFO(advice);
  CHECK(same);
}

TEST_CASE("shapes: text and back") {
  const std::vector<Sample> shapes = parse_shapes(
      "# a comment\n\ngemm bf16 8 4096 14336  # with one behind\r\nadd fp32 7\n"
      "copy fp32 4096 | to there |by another way \n",
      "s.txt");
  REQUIRE(shapes.size() == 3);
  CHECK(shapes[0].kernel == "gemm");
  CHECK(shapes[0].dtype == "bf16");
  CHECK(shapes[0].shape == std::vector<std::int64_t>{8, 4096, 14336});
  CHECK(shapes[1].variant.empty());
  CHECK(shapes[2].variant == "to there");
  CHECK(shapes[2].set_aside == "by another way");
  CHECK(shapes_text(shapes) ==
        "gemm bf16 8 4096 14336\nadd fp32 7\ncopy fp32 4096 | to there | by another way\n");
  CHECK(parse_shapes(shapes_text(shapes), "s.txt") == shapes);
}

TEST_CASE("shapes: what is wrong, and where") {
  CHECK(refusal_of("add bf16 1\nsubtract bf16 1\n") == "s.txt:2: unknown kernel 'subtract'");
  CHECK(refusal_of("gemm bf16 1 2\n") == "s.txt:1: 2 sizes; expected 3 of gemm");
  CHECK(refusal_of("add bf16 1e3\n") == "s.txt:1: '1e3' is no size; expected 0 to 1e15");
  CHECK(refusal_of("add bf16 -1\n") == "s.txt:1: '-1' is no size; expected 0 to 1e15");
  CHECK(refusal_of("add bf16 9999999999999999999\n") ==
        "s.txt:1: '9999999999999999999' is no size; expected 0 to 1e15");
  CHECK(refusal_of("add bf16 1 | a | b | c\n") == "s.txt:1: more than three parts");
  Sample way = parse_shapes("copy fp32 4096 | memory copy\n", "s.txt").front();
  way.variant = "this | that";
  CHECK_THROWS_AS(shapes_text({way}), std::logic_error);
}
