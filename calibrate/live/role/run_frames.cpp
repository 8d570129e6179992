#include "calibrate/live/role/run_frames.h"

namespace kvlane::live {
namespace {

constexpr std::int64_t kMostNs = std::int64_t{1} << 60U;  // sums of three hold
constexpr std::int64_t kMostBytes = std::int64_t{1} << 46U;

void put_places(std::span<const RegionPlace> places, Writer& out) {
  out.put(static_cast<std::uint32_t>(places.size()));
  for (const RegionPlace& place : places) {
    out.put(place.region.value());
    out.put(place.epoch);
    out.put(place.offset);
    out.put(place.length);
  }
}

bool get_places(Reader& in, std::size_t most, std::vector<RegionPlace>& places) {
  const auto count = in.get<std::uint32_t>();
  if (!in.ok() || count > most) return false;
  for (std::uint32_t i = 0; i < count; ++i) {
    RegionPlace place;
    place.region = RegionId(in.get<std::uint32_t>());
    place.epoch = in.get<std::uint32_t>();
    place.offset = in.get<std::int64_t>();
    place.length = in.get<std::int64_t>();
    if (place.region.value() >= most || place.offset < 0 || place.length < 0 ||
        place.offset > kMostBytes || place.length > kMostBytes) {
      return false;
    }
    places.push_back(place);
  }
  return in.ok();
}

}  // namespace

std::vector<std::byte> encode_prepare(const RunNumber& number) {
  std::vector<std::byte> body;
  Writer out(body);
  out.put(number.strategy);
  out.put(number.seed);
  out.put(number.number);
  return body;
}

std::optional<RunNumber> decode_prepare(std::span<const std::byte> body) {
  Reader in(body);
  RunNumber number;
  number.strategy = in.get<std::uint32_t>();
  number.seed = in.get<std::uint32_t>();
  number.number = in.get<std::uint64_t>();
  return in.done() ? std::optional(number) : std::nullopt;
}

std::vector<std::byte> encode_places(std::span<const RegionPlace> places) {
  std::vector<std::byte> body;
  Writer out(body);
  put_places(places, out);
  return body;
}

std::optional<std::vector<RegionPlace>> decode_places(std::span<const std::byte> body,
                                                      std::size_t most) {
  Reader in(body);
  std::vector<RegionPlace> places;
  if (!get_places(in, most, places) || !in.done()) return std::nullopt;
  return places;
}

std::vector<std::byte> encode_start(const StartFrame& start) {
  std::vector<std::byte> body;
  Writer out(body);
  out.put(start.zero_ns);
  out.put(start.peer_minus_own_ns);
  out.put(start.loop_zero_ns);
  put_places(start.places, out);
  return body;
}

std::optional<StartFrame> decode_start(std::span<const std::byte> body, std::size_t most) {
  Reader in(body);
  StartFrame start;
  start.zero_ns = in.get<std::int64_t>();
  start.peer_minus_own_ns = in.get<std::int64_t>();
  start.loop_zero_ns = in.get<std::int64_t>();
  if (!get_places(in, most, start.places) || !in.done()) return std::nullopt;
  for (const std::int64_t ns : {start.zero_ns, start.peer_minus_own_ns, start.loop_zero_ns}) {
    if (ns > kMostNs || ns < -kMostNs) return std::nullopt;
  }
  return start;
}

}  // namespace kvlane::live
