// kvlane calibrate link: what a link does, by the transport that a live run would take.

#include <fmt/format.h>

#include "calibrate/live/link/link_role.h"
#include "calibrate/live/role/child.h"
#include "sim/cli/arguments.h"
#include "sim/cli/calibrate_actions.h"
#include "sim/cli/live_arguments.h"
#include "sim/cli/live_run.h"

namespace kvlane::cli {
namespace {

namespace po = boost::program_options;

constexpr char kAbout[] =
    "kvlane calibrate link: latency and bandwidth of a link, by the transport of a live run. One\n"
    "end listens, the other measures; without either word both ends run on this host.";

}  // namespace

int calibrate_link(const Args& args, const Context& context) {
  Arguments arguments;
  LiveArguments live_arguments;
  std::string listen, peer;
  arguments.options.add_options()("listen", po::value(&listen), "HOST:PORT: the end that answers")(
      "peer", po::value(&peer), "HOST:PORT of the end that answers: measure from here");
  live_arguments.add(arguments.options);
  if (!arguments.parse("calibrate link", kAbout, args)) return 0;
  const live::LiveOptions options = live_arguments.options("calibrate link", arguments, context);
  const live::LinkOptions link;
  const live::Say say = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  if (!listen.empty()) {
    live::run_link_passive(options, link, live::parse_address(listen, "--listen"), say);
    return 0;
  }
  std::unique_ptr<live::ChildRole> child;
  if (peer.empty()) {
    std::vector<std::string> words = {own_program(), "calibrate", "link", "--listen",
                                      "127.0.0.1:0"};
    const std::vector<std::string> own = live_arguments.words(arguments);
    words.insert(words.end(), own.begin(), own.end());
    child = std::make_unique<live::ChildRole>(words);
    peer = child->wait_until_listening(std::chrono::seconds(30));
  }
  live::LinkProbe probe(options, link, live::parse_address(peer, "--peer"), say);
  probe.verify();
  for (const std::int64_t bytes : {4096, 65536, 1 << 20, 4 << 20}) {
    for (const std::int64_t fragments : {1, 16}) {
      for (const int depth : {1, 16}) {
        live::LinkLoad load;
        load.bytes = bytes * (bytes == 4096 ? fragments : 1);
        load.fragments = fragments;
        load.depth = depth;
        const live::LinkSample s = probe.measure(load);
        print(
            fmt::format("{:>8} B x {:>3} depth {:>3}: {:.3f} GB/s {:.0f}/s p50 {:.1f} us p99 "
                        "{:.1f} us visible {:.1f} us cpu {:.3f} s/GB post {:.2f} us\n",
                        load.bytes, fragments, depth, s.rate_GBps, s.operations_per_s,
                        s.latency.p50, s.latency.p99, s.visible.p50, s.cpu_s_per_GB, s.post_us));
      }
    }
  }
  probe.close();
  return 0;
}

}  // namespace kvlane::cli
