#include "sim/cli/live_arguments.h"

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "calibrate/live/role/choice.h"
#include "sim/base/input_error.h"
#include "sim/scenario/quantity.h"

namespace kvlane::cli {
namespace {

namespace po = boost::program_options;

constexpr std::size_t kMostSecret = 4096;

Duration duration_of(const std::string& option, const std::string& text) {
  const std::int64_t ps = parse_integer_quantity(text, UnitFamily::time, {option, 0, 0});
  if (ps < 1'000'000'000) {  // 1 ms
    throw UsageError(fmt::format("{} {}: expected at least 1 ms", option, text));
  }
  return Duration(ps);
}

std::int64_t count_of(const std::string& option, const std::string& text, std::int64_t least,
                      std::int64_t most) {
  const std::int64_t count = parse_integer(text, {option, 0, 0});
  if (count < least || count > most) {
    throw UsageError(fmt::format("{} {}: expected {} to {}", option, text, least, most));
  }
  return count;
}

std::string read_secret(const std::string& path) {
  if (path.empty()) {
    const char* from_environment = std::getenv("KVLANE_SECRET");
    return from_environment == nullptr ? "" : from_environment;
  }
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  if (file) text << file.rdbuf();
  if (!file) throw InputError({path, 0, 0}, "cannot be read", "expected a file with the secret");
  std::string secret = text.str();
  while (!secret.empty() && (secret.back() == '\n' || secret.back() == '\r')) secret.pop_back();
  if (secret.size() < 8 || secret.size() > kMostSecret) {
    throw InputError({path, 0, 0}, fmt::format("a secret of {} bytes", secret.size()),
                     fmt::format("expected 8 to {}", kMostSecret));
  }
  return secret;
}

template <class Kind>
Kind kind_of(const std::string& option, const std::string& text,
             std::initializer_list<Kind> kinds) {
  std::vector<std::string> words;
  for (const Kind kind : kinds) {
    if (text == live::to_string(kind)) return kind;
    words.emplace_back(live::to_string(kind));
  }
  expect_word(option, text, words);
  return *kinds.begin();
}

// Option, value, and whether it is told to a role that this process starts.
struct Word {
  const char* name;
  std::string LiveArguments::*value;
};
constexpr Word kWords[] = {{"transport", &LiveArguments::transport},
                           {"compute", &LiveArguments::compute},
                           {"secret-file", &LiveArguments::secret_file},
                           {"timeout", &LiveArguments::timeout},
                           {"lease", &LiveArguments::lease},
                           {"connect-timeout", &LiveArguments::connect},
                           {"threads", &LiveArguments::threads},
                           {"rdma-device", &LiveArguments::rdma_device},
                           {"gid-index", &LiveArguments::gid_index}};
constexpr const char* kFlags[] = {"verify", "checksum"};

}  // namespace

void LiveArguments::add(po::options_description& options) {
  options.add_options()("transport", po::value(&transport),
                        "shm, tcp, rdma or modeled; auto takes the best that both roles have")(
      "compute", po::value(&compute),
      "cpu, cuda or modeled (waits the modelled time); auto takes the best of this machine")(
      "verify", "check every byte of KV where it arrives")(
      "checksum", "CRC-32 over every transfer, looked at before it is told")(
      "secret-file", po::value(&secret_file),
      "file with the secret that both roles share (or KVLANE_SECRET); needed beyond loopback")(
      "timeout", po::value(&timeout),
      "as 10 s, the default: a peer that moves nothing for so long while transfers are in flight "
      "is lost")("lease", po::value(&lease),
                 "as 5 s, the default: a peer that is not heard of for so long is lost")(
      "connect-timeout", po::value(&connect),
      "as 30 s, the default: how long to wait until a peer listens")(
      "threads", po::value(&threads),
      "CPU threads of a GPU's kernels with --compute cpu (default: 1)")(
      "processors", po::value(&processors),
      "as 0,2: the processors that this role runs on (default: all)")(
      "rdma-device", po::value(&rdma_device),
      "NAME; default: the first that has the session's address")(
      "gid-index", po::value(&gid_index),
      "N; default: the one of RoCE v2 with the session's address");
}

std::string LiveArguments::first(const Arguments& arguments) {
  for (const Word& word : kWords) {
    if (arguments.has(word.name)) return word.name;
  }
  for (const char* word : {"verify", "checksum", "processors"}) {
    if (arguments.has(word)) return word;
  }
  return "";
}

live::LiveOptions LiveArguments::options(const std::string& command, const Arguments& arguments,
                                         const Context& context) const {
  using live::ComputeKind;
  using live::TransportKind;
  live::LiveOptions o;
  o.transport = kind_of("--transport", transport,
                        {TransportKind::automatic, TransportKind::shm, TransportKind::tcp,
                         TransportKind::rdma, TransportKind::modeled});
  o.compute =
      kind_of("--compute", compute,
              {ComputeKind::automatic, ComputeKind::cpu, ComputeKind::cuda, ComputeKind::modeled});
  o.verify = arguments.has("verify");
  o.checksum = arguments.has("checksum");
  if (o.transport == TransportKind::modeled && o.checksum) {
    throw UsageError(command +
                     ": --checksum is of what crosses a wire, --transport modeled has none; "
                     "expected another transport");
  }
  o.secret = read_secret(secret_file);
  o.version = context.version;
  o.timeout = duration_of("--timeout", timeout);
  o.lease = duration_of("--lease", lease);
  o.connect = duration_of("--connect-timeout", connect);
  o.threads = static_cast<int>(count_of("--threads", threads, 1, 1024));
  o.rdma_device = rdma_device;
  o.gid_index = static_cast<int>(count_of("--gid-index", gid_index, -1, 255));
  o.cuda = context.cuda;
  o.rdma = context.rdma;
  live::abilities(o);  // what is not there is said before anything starts
  std::stringstream list(processors);
  for (std::string number; std::getline(list, number, ',');) {
    o.processors.push_back(static_cast<int>(count_of("--processors", number, 0, 1023)));
  }
  return o;
}

std::vector<std::string> LiveArguments::words(const Arguments& arguments) const {
  std::vector<std::string> words;
  for (const Word& word : kWords) {
    if (!arguments.has(word.name)) continue;
    words.push_back(std::string("--") + word.name);
    words.push_back(this->*word.value);
  }
  for (const char* flag : kFlags) {
    if (arguments.has(flag)) words.push_back(std::string("--") + flag);
  }
  return words;
}

live::Say say_on_stderr() {
  return [](const std::string& line) { fmt::print(stderr, "{}\n", readable(line)); };
}

}  // namespace kvlane::cli
