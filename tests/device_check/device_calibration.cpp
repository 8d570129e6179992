// device_check.sh's measurements: memory, links and every kernel on one GPU, as sample lines for
// `kvlane calibrate fit` on another machine. Needs the standard library and CUDA only.

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "calibrate/measure/gpu/gpu_device.h"
#include "calibrate/measure/load_gate.h"
#include "calibrate/measure/memory_grid.h"
#include "calibrate/measure/session.h"
#include "calibrate/measure/shape_list.h"
#include "sim/scenario/sample_file.h"
#include "tests/device_check/device_summary.h"

namespace {

using namespace kvlane;
using namespace kvlane::calibrate;

constexpr char kUsage[] =
    "device_calibration --shapes FILE --samples FILE --summary FILE [options]\n"
    "  --device N      GPU (0)\n"
    "  --seconds S     end after about so long, with what is measured by then (240)\n"
    "  --wait S        for a quiet machine, at most (60)\n"
    "  --commit TEXT   of this tree, for the samples\n"
    "  --quick         each shape once, warm, small copies: to see that everything runs\n";

struct Options {
  std::map<std::string, std::string> values = {
      {"--device", "0"}, {"--seconds", "240"}, {"--wait", "60"}, {"--commit", "unknown"}};
  bool quick = false;

  const std::string& text(const std::string& name) const {
    const auto at = values.find(name);
    if (at == values.end()) throw std::invalid_argument(name + " is missing");
    return at->second;
  }
  double number(const std::string& name) const {
    const std::string& word = text(name);
    char* end = nullptr;
    const double value = std::strtod(word.c_str(), &end);
    if (word.empty() || *end != '\0' || !(value >= 0 && value < 1e6)) {
      throw std::invalid_argument(name + ' ' + word + "; expected a number");
    }
    return value;
  }
  int device() const {
    const std::string& word = text("--device");
    int value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc{} || end != word.data() + word.size() || value < 0) {
      throw std::invalid_argument("--device " + word + "; expected a GPU's number, 0 say");
    }
    return value;
  }
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--quick") {
      options.quick = true;
      continue;
    }
    bool known = false;
    for (const char* one :
         {"--shapes", "--samples", "--summary", "--device", "--seconds", "--wait", "--commit"}) {
      known = known || name == one;
    }
    if (!known || i + 1 == argc) throw std::invalid_argument(name + "\n" + kUsage);
    options.values[name] = argv[++i];
  }
  return options;
}

constexpr std::int64_t kQuickOperands = std::int64_t{64} << 20;

volatile std::sig_atomic_t interrupted = 0;
void interrupt(int) { interrupted = 1; }

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path + ": cannot be read");
  return {std::istreambuf_iterator<char>(file), {}};
}

// Whole or not at all.
void write_file(const std::string& path, const std::string& text) {
  const std::string part = path + ".part";
  std::ofstream file(part, std::ios::binary);
  file << text;
  file.close();
  if (!file || std::rename(part.c_str(), path.c_str()) != 0) {
    throw std::runtime_error(path + ": cannot be written");
  }
}

// A line every few seconds: the output may be a log.
class Progress {
 public:
  void say(double seconds, const std::string& text) {
    if (seconds - said_ < 10) return;
    said_ = seconds;
    std::printf("  %s\n", text.c_str());
    std::fflush(stdout);
  }

 private:
  double said_ = now();
};

// Waits; a machine that stays busy is measured all the same, and every sample says so.
GateAnswer wait_for_quiet(const Machine& machine, double patience) {
  Progress progress;
  GateWorld world;
  world.load = [] { return load_average(); };
  world.sleep = [](double seconds) {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  };
  world.stopped = [] { return interrupted != 0; };
  world.progress = [&](double, double, double load) {
    progress.say(now(), "waiting for a quiet machine, load average " + std::to_string(load));
  };
  return pass_gate(load_limit(static_cast<int>(machine.threads)), false, world, patience);
}

// The host's kernel needs Highway, which this program does without, and the reference is a single
// thread: its times would pass for the kernel's in the rate that a fit takes from them.
bool packed_on_host(const Sample& shape) { return shape.variant == kGatherPacked; }
constexpr char kLeftOut[] =
    "\nGathers that the host packs are left out: `kvlane calibrate kernels --device cuda:N` times "
    "them. Without them\na fit guesses host_gather_bandwidth.\n";

std::vector<Sample> all_shapes(const Options& options) {
  const GridSize size = options.quick ? GridSize::quick : GridSize::full;
  std::vector<Sample> shapes = memory_grid(false, size);
  const std::string& path = options.text("--shapes");
  for (const auto& more : {link_grid(false, size), parse_shapes(file_text(path), path)}) {
    shapes.insert(shapes.end(), more.begin(), more.end());
  }
  shapes.erase(std::remove_if(shapes.begin(), shapes.end(), packed_on_host), shapes.end());
  return shapes;
}

int run(const Options& options) {
  const double end = now() + options.number("--seconds"), patience = options.number("--wait");
  const std::vector<Sample> shapes = all_shapes(options);
  const auto device =
      open_gpu_device(options.device(), static_cast<int>(std::thread::hardware_concurrency()),
                      options.quick ? kQuickOperands : 0, HostGather{});
  const GateAnswer gate = wait_for_quiet(device->machine(), patience);
  SessionOptions session;
  session.commit = options.text("--commit");
  session.load_average = gate.load;
  session.problem = gate.problem;
  // Fewer repetitions from here on, so that the last kernels have their turn before the end.
  session.budget = 0.75 * (end - now());
  if (options.quick) {
    session.cold = false;
    session.timer.fewest = session.timer.most = 1;
    session.problem += session.problem.empty() ? "a quick run, warm" : "; a quick run, warm";
  }
  session.now = now;
  session.stopped = [&] { return interrupted != 0 || now() >= end; };
  Progress progress;
  session.progress = [&](std::size_t done, std::size_t of) {
    progress.say(now(), std::to_string(done) + " of " + std::to_string(of) + " shapes measured");
  };
  const SessionResult result = measure_shapes(*device, shapes, session);
  std::string lines;
  for (const Sample& sample : result.samples) lines += sample_line(sample);
  write_file(options.text("--samples"), lines);
  write_file(options.text("--summary"), device_summary(result, shapes.size()) + kLeftOut);
  std::printf("  %zu samples of %zu shapes\n", result.samples.size(), shapes.size());
  if (!result.fault.empty()) throw std::runtime_error(result.fault);
  return result.samples.empty() ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGINT, interrupt);
  std::signal(SIGTERM, interrupt);
  try {
    return run(parse(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "device_calibration: %s\n", error.what());
    return 2;
  }
}
