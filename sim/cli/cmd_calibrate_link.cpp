// kvlane calibrate link: what a link does, by the transport that a live run would take.

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "calibrate/live/role/child.h"
#include "calibrate/live/session/handshake.h"
#include "calibrate/measure/machine.h"
#include "sim/base/input_error.h"
#include "sim/cli/arguments.h"
#include "sim/cli/calibrate_actions.h"
#include "sim/cli/link_report.h"
#include "sim/cli/live_arguments.h"
#include "sim/cli/live_run.h"
#include "sim/cli/measuring.h"
#include "sim/cli/output_file.h"
#include "sim/cli/progress.h"
#include "sim/scenario/quantity.h"

namespace kvlane::cli {
namespace {

namespace po = boost::program_options;

constexpr char kAbout[] =
    "kvlane calibrate link: latency and bandwidth of a link, by the transport of a live run, "
    "against\n"
    "size, fragments, depth, queues and lanes, and a fetch's latency under background writes. One\n"
    "end listens, the other measures; without either word both ends run on this host.\n\n"
    "usage: kvlane calibrate link [--quick] [-o FILE.samples.jsonl] [--nic FILE.yaml]\n"
    "       kvlane calibrate link --listen HOST:PORT [--secret-file FILE]\n"
    "       kvlane calibrate link --peer HOST:PORT [--secret-file FILE] [...]";

constexpr std::int64_t kMiB = std::int64_t{1} << 20U;
constexpr double kMeasuredAbove = 1.05;  // times the line: it is another
constexpr std::int64_t kLeastWorkingSet = 256 * kMiB;
constexpr std::int64_t kMostQueues = 64, kMostDepth = 4096, kMostFragments = 65536;

struct LinkWords {
  std::string listen, peer, sizes, fragments, depths, queues, background, op = "all", seconds,
                                                                          working_set;
  std::string format = "table", output, nic, name, line;
};

void add_options(po::options_description& options, LinkWords& words) {
  options.add_options()("listen", po::value(&words.listen), "HOST:PORT: the end that answers")(
      "peer", po::value(&words.peer), "HOST:PORT of the end that answers: measure from here")(
      "quick", "ten seconds instead of a minute: fewer rows, shorter ones")(
      "sizes", po::value(&words.sizes),
      "bytes an operation, as '4 KiB, 1 MiB' (64 B, 512 B, 4 KiB to 16 MiB doubling); none: left "
      "out")("fragments", po::value(&words.fragments),
             "pieces of an operation of 1 MiB, as 1,16 (1 to 4096); none")(
      "depths", po::value(&words.depths), "operations of 64 KiB in flight (1 to 64); none")(
      "queues", po::value(&words.queues),
      "queue pairs a lane (1 to 4), and lanes beside them; none")(
      "background", po::value(&words.background),
      "bytes of background writes in flight under a fetch (0 B, 1 MiB, 8 MiB, 64 MiB); none")(
      "op", po::value(&words.op), "write, read or all")("seconds", po::value(&words.seconds),
                                                        "a row's time, as '0.5 s'")(
      "working-set", po::value(&words.working_set),
      "memory that transfers go round in (4 times the last-level cache, at least 256 MiB)")(
      "format", po::value(&words.format), "table, json or csv")(
      "output,o", po::value(&words.output), "samples for `calibrate fit`, JSON lines")(
      "nic", po::value(&words.nic), "write a NIC file for scenarios (kind: nic)")(
      "name", po::value(&words.name), "of the NIC (the file's, or link)")(
      "line", po::value(&words.line), "rate of the line, as '25 Gbps' (what was measured)")(
      "force", "replace files that exist");
}

// Words between commas, each through `parse` and within [least, most].
template <class Parse>
std::vector<std::int64_t> list_of(const char* option, const std::string& text, std::int64_t least,
                                  std::int64_t most, Parse parse) {
  std::vector<std::int64_t> values;
  if (text == "none") return values;
  std::stringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    const std::size_t from = word.find_first_not_of(' ');
    const std::int64_t value = parse(from == std::string::npos ? word : word.substr(from));
    if (value < least || value > most) {
      throw UsageError(
          fmt::format("calibrate link: {} {}; expected {} to {}", option, word, least, most));
    }
    values.push_back(value);
  }
  if (values.empty()) {
    throw UsageError(fmt::format("calibrate link: {} ''; expected a list, or none", option));
  }
  return values;
}

std::int64_t size_in(const char* option, const std::string& word) {
  return parse_integer_quantity(word, UnitFamily::size, {option, 0, 0});
}

live::LinkAxes axes_of(const LinkWords& words, bool quick) {
  live::LinkAxes axes = quick ? live::quick_axes() : live::full_axes();
  const auto count = [](const char* option) {
    return [option](const std::string& word) { return parse_integer(word, {option, 0, 0}); };
  };
  if (!words.sizes.empty()) {
    axes.sizes = list_of("--sizes", words.sizes, 1, 1024 * kMiB,
                         [](const std::string& word) { return size_in("--sizes", word); });
  }
  if (!words.background.empty()) {
    axes.background_bytes =
        list_of("--background", words.background, 0, 1024 * kMiB,
                [](const std::string& word) { return size_in("--background", word); });
  }
  if (!words.fragments.empty()) {
    axes.fragments =
        list_of("--fragments", words.fragments, 1, kMostFragments, count("--fragments"));
    for (const std::int64_t pieces : axes.fragments) {
      if (live::kFragmentedBytes % pieces != 0) {
        throw UsageError(fmt::format(
            "calibrate link: --fragments {}; expected a power of two: pieces of 1 MiB", pieces));
      }
    }
  }
  if (!words.depths.empty()) {
    axes.depths = list_of("--depths", words.depths, 1, kMostDepth, count("--depths"));
  }
  if (!words.queues.empty()) {
    axes.queues = list_of("--queues", words.queues, 1, kMostQueues, count("--queues"));
  }
  expect_word("--op", words.op, {"write", "read", "all"});
  if (words.op == "write") axes.operations = {TransferOp::write};
  if (words.op == "read") axes.operations = {TransferOp::read};
  if (!words.seconds.empty()) {
    const std::int64_t ps =
        parse_integer_quantity(words.seconds, UnitFamily::time, {"--seconds", 0, 0});
    axes.seconds = to_seconds(Duration(ps));
    if (axes.seconds < 0.001 || axes.seconds > 3600) {
      throw UsageError(
          fmt::format("calibrate link: --seconds {}; expected 1 ms to 1 h", words.seconds));
    }
  }
  return axes;
}

std::int64_t free_memory_bytes() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("MemAvailable:")) return std::atoll(line.c_str() + 13) * 1024;
  }
  return 0;
}

// Larger than what the caches keep, or the wire's copies would be measured in them; but an eighth
// of what is free at most, since both ends may live here.
std::int64_t working_set_of(const LinkWords& words, bool quick) {
  if (!words.working_set.empty()) {
    const std::int64_t bytes = size_in("--working-set", words.working_set);
    if (bytes < kMiB || bytes > (std::int64_t{1} << 40U)) {
      throw UsageError(fmt::format("calibrate link: --working-set {}; expected 1 MiB to 1 TiB",
                                   words.working_set));
    }
    return bytes;
  }
  if (quick) return kLeastWorkingSet;
  const std::int64_t cache = calibrate::read_machine(1).cache_bytes;
  return std::max(kLeastWorkingSet, std::min(4 * cache, free_memory_bytes() / 8)) / kMiB * kMiB;
}

// Both ends fill their memory, on one host where no peer is named.
void check_free(std::int64_t working_set, std::int64_t ends) {
  if (working_set <= free_memory_bytes() / ends) return;
  throw UsageError(fmt::format("calibrate link: --working-set {} at {} here; {} of memory are free",
                               format_size(working_set), ends == 1 ? "one end" : "two ends",
                               format_size(free_memory_bytes())));
}

// The largest operation has to find room, with a gap behind each piece.
void check_room(const live::LinkAxes& axes, std::int64_t working_set, bool constants) {
  std::int64_t largest = axes.fragments.empty() ? 0 : 2 * live::kFragmentedBytes;
  if (constants) largest = std::max(largest, live::kConstantsRoom);
  for (const std::int64_t bytes : axes.sizes) largest = std::max(largest, bytes);
  if (largest > working_set) {
    throw UsageError(
        fmt::format("calibrate link: --working-set {}; expected at least {} for these operations",
                    format_size(working_set), format_size(largest)));
  }
}

std::string name_of(const LinkWords& words) {
  if (!words.name.empty()) return words.name;
  return words.nic.empty() ? "link" : std::filesystem::path(words.nic).stem().string();
}

// Another process of this program that answers.
std::unique_ptr<live::ChildRole> start_answering(const LiveArguments& live_arguments,
                                                 const Arguments& arguments,
                                                 const std::string& secret) {
  std::vector<std::string> words = {own_program(), "calibrate", "link", "--listen", "127.0.0.1:0"};
  const std::vector<std::string> more = live_arguments.words(arguments);
  words.insert(words.end(), more.begin(), more.end());
  return std::make_unique<live::ChildRole>(words, "", secret);
}

}  // namespace

int calibrate_link(const Args& args, const Context& context) {
  Arguments arguments;
  LiveArguments live_arguments;
  LinkWords words;
  add_options(arguments.options, words);
  live_arguments.add(arguments.options);
  if (!arguments.parse("calibrate link", kAbout, args)) return 0;
  if (!arguments.positional.empty()) {
    throw UsageError(fmt::format("calibrate link: '{}'; expected options only",
                                 shortened(arguments.positional[0])));
  }
  for (const auto& [option, value] : {std::pair{"output", words.output},
                                      {"nic", words.nic},
                                      {"listen", words.listen},
                                      {"peer", words.peer},
                                      {"sizes", words.sizes},
                                      {"fragments", words.fragments},
                                      {"depths", words.depths},
                                      {"queues", words.queues},
                                      {"background", words.background},
                                      {"seconds", words.seconds},
                                      {"working-set", words.working_set},
                                      {"line", words.line}}) {
    expect_name(arguments, option, value);
  }
  expect_word("--format", words.format, {"table", "json", "csv"});
  live::LiveOptions options = live_arguments.options("calibrate link", arguments, context);
  if (options.transport == live::TransportKind::modeled) {
    throw UsageError("calibrate link: --transport modeled has no link; expected shm, tcp or rdma");
  }
  const live::Say say = say_on_stderr();
  const bool quick = arguments.has("quick");
  live::LinkAxes axes = axes_of(words, quick);
  live::LinkOptions link;
  for (const std::int64_t queues : axes.queues) {
    link.queues = std::max(link.queues, static_cast<std::uint32_t>(queues));
  }

  if (!words.listen.empty()) {
    if (!words.peer.empty() || !words.output.empty() || !words.nic.empty()) {
      throw UsageError(
          "calibrate link: --listen beside --peer, -o or --nic; expected them at the end that "
          "measures");
    }
    // What is not said here is the other end's to say.
    link.working_set = words.working_set.empty() ? 0 : working_set_of(words, quick);
    check_free(link.working_set, 1);
    if (words.queues.empty()) link.queues = 0;
    live::run_link_passive(options, link, live::parse_address(words.listen, "--listen"), say);
    return 0;
  }

  std::optional<Bandwidth> line;
  if (!words.line.empty()) {
    line = Bandwidth::bits_per_sec(
        parse_integer_quantity(words.line, UnitFamily::rate, {"--line", 0, 0}));
    if (*line < Bandwidth::bits_per_sec(1'000'000) || *line > Bandwidth::gbit_per_sec(1e6)) {
      throw UsageError(
          fmt::format("calibrate link: --line {}; expected 1 Mbps to 1000 Tbps", words.line));
    }
    if (words.nic.empty())
      throw UsageError("calibrate link: --line without --nic; expected both or none");
  }
  const Replace replace = arguments.has("force") ? Replace::allow : Replace::refuse;
  std::vector<std::string> outputs;
  for (const std::string& path : {words.output, words.nic}) {
    if (path.empty()) continue;
    check_can_write(path, replace);
    outputs.push_back(path);
  }
  check_outputs_differ(outputs, {});
  link.working_set = working_set_of(words, quick);
  check_room(axes, link.working_set, !words.nic.empty());
  check_free(link.working_set, words.peer.empty() ? 2 : 1);
  for (std::int64_t& bytes : axes.background_bytes) bytes = std::min(bytes, link.working_set);

  LinkReport report;
  report.load_average_1min = calibrate::load_average();
  std::unique_ptr<live::ChildRole> child;
  if (words.peer.empty()) {
    if (options.secret.empty()) options.secret = live::random_secret();
    child = start_answering(live_arguments, arguments, options.secret);
    words.peer = child->wait_until_listening(std::chrono::seconds(30));
  }
  const live::SocketAddress peer = live::parse_address(words.peer, "--peer");
  live::LinkProbe probe(options, link, peer, say);
  const TransportLimits limits = probe.limits();
  const bool gathers = probe.transport() == "rdma";
  const std::vector<live::LinkRow> rows = live::rows_of(axes, gathers ? &limits : nullptr);
  probe.verify();  // nothing is timed before it is checked
  {
    Progress progress("rows", static_cast<std::int64_t>(rows.size()), context.stderr_is_terminal,
                      context.columns);
    report.sweep = live::measure_rows(probe, rows, options.verify, [&] { progress.advance(); });
  }
  report.name = name_of(words);
  report.version = context.version;
  report.transport = probe.transport();
  report.place =
      live::link_place(report.transport, probe.own_address(), peer, probe.same_host(), options);
  report.working_set_bytes = link.working_set;
  report.queues = link.queues;
  report.connect_s = probe.connect_seconds();
  report.clock_error_us = probe.clock_error_us();
  report.checksum = options.checksum;

  std::vector<std::unique_ptr<OutputFile>> files;
  const auto write = [&](const std::string& path, const std::string& text) {
    files.push_back(std::make_unique<OutputFile>(path, replace));
    files.back()->write(text);
  };
  if (!words.nic.empty()) {
    const live::LinkConstants constants = live::measure_constants(probe);
    if (line && constants.rate_GBps * 1e9 > line->bytes_per_sec() * kMeasuredAbove) {
      throw RunError(fmt::format(
          "--line {}: writes of 1 MiB went at {:.3g} Gbps; expected the line's own rate, or none",
          words.line, constants.rate_GBps * 8));
    }
    write(words.nic, link_nic_file(report, constants, limits, line));
  }
  if (!words.output.empty()) write(words.output, samples_text(link_samples(report)));
  probe.close();
  if (child && child->wait(std::chrono::seconds(10)) != 0) {
    throw RunError("the answering end failed: " + child->said());
  }
  commit_all(files);
  print(words.format == "json"  ? link_json(report)
        : words.format == "csv" ? link_csv(report)
                                : link_table(report));
  const auto failed = [](const live::MeasuredRow& row) { return row.sample.errors > 0; };
  return std::any_of(report.sweep.rows.begin(), report.sweep.rows.end(), failed) ? 1 : 0;
}

}  // namespace kvlane::cli
