// kvlane doctor: what this machine has for a live run, what is missing, the command that mends it.

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "calibrate/live/doctor/checks.h"
#include "sim/cli/arguments.h"
#include "sim/cli/commands.h"
#include "sim/report/json_writer.h"
#include "sim/report/text_table.h"
#include "sim/scenario/quantity.h"

namespace kvlane::cli {
namespace {

namespace po = boost::program_options;
namespace doctor = live::doctor;

constexpr char kAbout[] =
    "kvlane doctor [--for PATH]: what this machine has for a live run (kvlane run --live), and "
    "for\n"
    "what is missing the command that mends it. Exit 0 where a run over TCP, or over PATH, is\n"
    "possible; else 1.";

std::string table_of(const doctor::Diagnosis& diagnosis, int columns) {
  TextTable table({"check", "verdict", "found"});
  table.align_left(1);
  table.align_left(2);
  std::size_t widest = 0;
  for (const doctor::Row& row : diagnosis.rows) widest = std::max(widest, row.check.size());
  // Three columns, two spaces apart, the second of seven letters: a longer text goes on below.
  const int room = std::max(columns - static_cast<int>(widest) - 11, 30);
  for (const doctor::Row& row : diagnosis.rows) {
    std::string text = wrapped(row.found, room, 2);
    std::string check = row.check, verdict = doctor::to_string(row.verdict);
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      table.add_row(
          {std::exchange(check, ""), std::exchange(verdict, ""), text.substr(at, end - at)});
      at = end + 1;
    }
  }
  std::string text = table.render(columns);
  bool first = true;
  for (const doctor::Row& row : diagnosis.rows) {
    if (row.mend.empty()) continue;
    if (std::exchange(first, false)) text += "\nTo mend:\n";
    text += fmt::format("  {:<{}}  {}\n", row.check, widest, row.mend);
  }
  text += '\n';
  for (const doctor::Path path : doctor::kPaths) {
    const doctor::Row* const obstacle = diagnosis.obstacle(path);
    text += fmt::format("{:<5} {}\n", doctor::to_string(path),
                        obstacle == nullptr ? std::string("possible")
                                            : fmt::format("not possible: {}", obstacle->check));
  }
  return text;
}

std::string json_of(const doctor::Diagnosis& diagnosis) {
  JsonWriter json;
  json.begin_object().member("schema", "kvlane.doctor/1").key("rows").begin_array();
  for (const doctor::Row& row : diagnosis.rows) {
    json.begin_object(JsonWriter::Layout::one_line)
        .member("check", row.check)
        .member("found", row.found)
        .member("verdict", doctor::to_string(row.verdict))
        .key("mend");
    row.mend.empty() ? json.null() : json.value(row.mend);
    json.key("blocks").begin_array(JsonWriter::Layout::one_line);
    if (row.verdict == doctor::Verdict::missing || row.verdict == doctor::Verdict::bad) {
      for (const doctor::Path path : row.stands) json.value(doctor::to_string(path));
    }
    json.end_array().end_object();
  }
  return json.end_array().end_object().finish();
}

}  // namespace

int doctor_command(const Args& args, const Context& context) {
  Arguments arguments;
  std::string format, wanted, memory, root;
  arguments.options.add_options()("for", po::value(&wanted)->value_name("PATH"),
                                  "tcp, shm, rdma or cuda: exit 1 where that is not possible")(
      "memory", po::value(&memory)->default_value("1 GiB")->value_name("SIZE"),
      "KV memory of a role, which a NIC must be allowed to pin")(
      "format", po::value(&format)->default_value("table"), "table or json")(
      "root", po::value(&root)->value_name("DIR"),
      "look at the /proc, /sys, ... below DIR: of a container or another machine");
  if (!arguments.parse("doctor", kAbout, args)) return 0;
  expect_word("--format", format, {"table", "json"});
  expect_name(arguments, "root", root);
  if (arguments.has("for")) expect_word("--for", wanted, {"tcp", "shm", "rdma", "cuda"});
  if (!arguments.positional.empty()) {
    throw UsageError(fmt::format("doctor: {} words; expected none", arguments.positional.size()));
  }
  std::error_code error;
  if (arguments.has("root") && !std::filesystem::is_directory(root, error)) {
    throw UsageError(
        fmt::format("--root: no folder `{}`; expected one with proc and sys in it", root));
  }
  doctor::Options options;
  options.root = root;
  const char* const search = std::getenv("PATH");
  options.search = search == nullptr ? "/usr/bin:/bin" : search;
  options.pool_bytes = parse_integer_quantity(memory, UnitFamily::size, {"--memory", 0, 0});
  if (options.pool_bytes < 0) {
    throw UsageError(fmt::format("--memory {}; expected a size of 0 or more", memory));
  }
  options.built_with_cuda = static_cast<bool>(context.open_gpu);
  options.built_with_rdma = context.rdma.open != nullptr;
  const doctor::Diagnosis diagnosis = doctor::diagnose(options);
  print(format == "json" ? json_of(diagnosis) : table_of(diagnosis, context.columns));
  doctor::Path path = doctor::Path::tcp;
  for (const doctor::Path known : doctor::kPaths) {
    if (wanted == doctor::to_string(known)) path = known;
  }
  return diagnosis.obstacle(path) == nullptr ? 0 : 1;
}

}  // namespace kvlane::cli
