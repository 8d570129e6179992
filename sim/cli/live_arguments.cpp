#include "sim/cli/live_arguments.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "calibrate/live/role/choice.h"
#include "sim/base/input_error.h"
#include "sim/scenario/quantity.h"

namespace kvlane::cli {
namespace {

namespace po = boost::program_options;

constexpr std::size_t kLeastSecret = 8, kMostSecret = 4096;
constexpr Duration kLongest = std::chrono::hours(24);

Duration duration_of(const std::string& option, const std::string& text) {
  const std::int64_t ps = parse_integer_quantity(text, UnitFamily::time, {option, 0, 0});
  if (ps < 1'000'000'000) {  // 1 ms
    throw UsageError(fmt::format("{} {}: expected at least 1 ms", option, text));
  }
  if (ps > kLongest.count()) {
    throw UsageError(fmt::format("{} {}: expected at most 24 h", option, text));
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

std::string checked(const std::string& secret, const std::string& where) {
  if (secret.size() >= kLeastSecret && secret.size() <= kMostSecret) return secret;
  throw InputError({where, 0, 0}, fmt::format("a secret of {} bytes", secret.size()),
                   fmt::format("expected {} to {}", kLeastSecret, kMostSecret));
}

std::string read_secret(const std::string& path) {
  if (path.empty()) {
    const char* const from_environment = std::getenv("KVLANE_SECRET");
    if (from_environment == nullptr || *from_environment == '\0') return "";
    return checked(from_environment, "KVLANE_SECRET");
  }
  const auto unreadable = [&](const char* why) {
    return InputError({path, 0, 0}, why, "expected a file with the secret");
  };
  std::error_code error;
  if (!std::filesystem::exists(path, error)) throw unreadable("cannot be read");
  if (!std::filesystem::is_regular_file(path, error)) throw unreadable("not a plain file");
  std::ifstream file(path, std::ios::binary);
  std::string secret(kMostSecret + 3, '\0');  // a line's end, and what tells that there is more
  if (file) file.read(secret.data(), static_cast<std::streamsize>(secret.size()));
  if (file.bad() || (!file && !file.eof())) throw unreadable("cannot be read");
  secret.resize(static_cast<std::size_t>(file.gcount()));
  while (!secret.empty() && (secret.back() == '\n' || secret.back() == '\r')) secret.pop_back();
  return checked(secret, path);
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
  for (const auto& [option, value] : {std::pair{"secret-file", &secret_file},
                                      {"processors", &processors},
                                      {"rdma-device", &rdma_device}}) {
    expect_name(arguments, option, *value);
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
    // Where this process runs now is no limit: whoever started it may have pinned it.
    const std::int64_t there = ::sysconf(_SC_NPROCESSORS_CONF);
    if (o.processors.back() >= there) {
      throw UsageError(
          fmt::format("--processors {}: expected numbers of 0 to {}", processors, there - 1));
    }
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
  return [](const std::string& line) {
    const std::string text = readable(line) + "\n";
    // Nobody may be listening.
    [[maybe_unused]] const std::size_t written = std::fwrite(text.data(), 1, text.size(), stderr);
  };
}

}  // namespace kvlane::cli
