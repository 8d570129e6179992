// kvlane show model|hardware NAME|FILE: the derivation behind a number.

#include <fmt/format.h>

#include "sim/base/input_error.h"
#include "sim/cli/arguments.h"
#include "sim/cli/commands.h"
#include "sim/scenario/gpu_file.h"
#include "sim/scenario/input_files.h"
#include "sim/scenario/instance_file.h"
#include "sim/scenario/model_file.h"
#include "sim/scenario/model_show.h"

namespace kvlane::cli {
namespace {

namespace po = boost::program_options;

constexpr char kAbout[] =
    "kvlane show model NAME|FILE [--tokens N]: KV bytes of a model with their derivation. FILE is "
    "our\n"
    "YAML or a Hugging Face config.json.\n"
    "kvlane show hardware NAME|FILE: every parameter of a GPU with unit and source.";

}  // namespace

int show_command(const Args& args, const Context& context) {
  Arguments arguments;
  std::string format;
  std::int64_t tokens = 0;
  arguments.options.add_options()("format", po::value(&format)->default_value("table"),
                                  "table or json")("tokens", po::value(&tokens),
                                                   "length of a sequence to size (model)");
  if (!arguments.parse("show", kAbout, args)) return 0;
  expect_word("--format", format, {"table", "json"});
  if (arguments.positional.size() != 2) {
    throw UsageError(fmt::format("show: {} words; expected two words, model|hardware NAME|FILE",
                                 arguments.positional.size()));
  }
  expect_word("show", arguments.positional[0], {"model", "hardware"});
  if (arguments.has("tokens") && (tokens < 1 || tokens > 1'000'000'000)) {
    throw UsageError(fmt::format("show: --tokens {}; expected 1 to 1000000000", tokens));
  }
  InputFiles files({context.preset_dir});
  const bool json = format == "json";
  const PlacedText name{arguments.positional[1], {"command line", 0, 0}};
  if (arguments.positional[0] == "model") {
    const std::string path = files.find(name, "models");
    const ModelSpec model = read_model(files.read(path, name.place), path);
    print(json ? show_model_json(model, tokens) : show_model_text(model, tokens));
    return 0;
  }
  if (arguments.has("tokens"))
    throw UsageError("show hardware: --tokens; expected it with show model only");
  const std::string path = files.find(name, "hardware");
  const GpuSpec gpu = read_gpu(files.read(path, name.place), path);
  print(json ? show_gpu_json(gpu) : show_gpu_text(gpu));
  return 0;
}

}  // namespace kvlane::cli
