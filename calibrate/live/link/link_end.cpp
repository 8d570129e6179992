#include "calibrate/live/link/link_end.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include "calibrate/live/memory/pattern.h"
#include "calibrate/live/role/run_frames.h"

namespace kvlane::live {
namespace {

constexpr std::size_t kFillPiece = std::size_t{64} << 20U;

}  // namespace

double process_cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::uint64_t pattern_seed(EndpointId end) { return 77 + end.value(); }

LinkEnd::LinkEnd(WallLoop& l, EndpointId self, const LiveOptions& options, const LinkOptions& o,
                 const std::function<void()>& breathe)
    : loop(l),
      link(o),
      pool(static_cast<std::size_t>(o.working_set) + 4096),
      regions(pool),
      transport(loop, self, regions, {options.timeout}) {
  transport.on_failure(
      [this](EndpointId, const std::string& reason, RequestId) { fail(name + " " + reason); });
  if (!regions.create(kLinkRegion, link.working_set)) {
    throw RunError(fmt::format("no room for a working set of {} bytes", link.working_set));
  }
  const std::span<std::byte> memory = regions.bytes_of(kLinkRegion);
  for (std::size_t at = 0; at < memory.size(); at += kFillPiece) {
    const std::size_t piece = std::min(kFillPiece, memory.size() - at);
    fill_pattern(pattern_seed(self), static_cast<std::int64_t>(at), memory.subspan(at, piece));
    if (breathe) breathe();
  }
  place = regions.expose(kLinkRegion);
  transport.begin_run(nullptr, &no_messages);
  transport.set_handler(self, &no_messages);
}

void LinkEnd::exchange_places(Session& session, EndpointId peer, Duration limit) {
  name = session.peer();
  session.send(FrameKind::prepared, encode_places({&place, 1}));
  const auto theirs = decode_places(session.wait(FrameKind::prepared, limit), 1);
  if (!theirs || theirs->size() != 1 || theirs->front().region != kLinkRegion ||
      theirs->front().length < link.working_set) {
    throw PeerError(session.peer() + " sent a region that is none");
  }
  transport.remote_of(peer).set(theirs->front());
}

}  // namespace kvlane::live
