// Properties of what goes over the wire: what was written is what is read, and no prefix or flipped
// bit is read as something else where a checksum stands.

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "calibrate/live/role/records.h"
#include "calibrate/live/session/handshake.h"
#include "calibrate/live/wire/frame.h"
#include "calibrate/live/wire/message.h"

namespace kvlane::live {
namespace {

template <class T>
T any() {
  return *rc::gen::arbitrary<T>();
}
template <class T>
T within(T least, T most) {
  return *rc::gen::inRange<T>(least, most + 1);
}

// A count that is often small and sometimes not.
std::size_t count() { return within<std::size_t>(0, within<int>(0, 4) == 0 ? 300 : 6); }

OwnedMessage draw_message() {
  OwnedMessage owned;
  Message& m = owned.message;
  m.kind = static_cast<MessageKind>(within<int>(0, static_cast<int>(MessageKind::release)));
  m.request = RequestId(any<std::uint32_t>());
  m.layer = LayerId(any<std::uint32_t>());
  m.iteration = any<std::int32_t>();
  m.rows = any<std::int64_t>();
  m.cookie = any<std::uint64_t>();
  owned.runs.resize(count());
  for (BlockRun& run : owned.runs) {
    run.layer = any<std::uint32_t>();
    run.first = any<std::uint32_t>();
    run.count = any<std::uint32_t>();
  }
  owned.groups.resize(count());
  for (RowGroup& group : owned.groups) {
    group.request = RequestId(any<std::uint32_t>());
    group.rows = any<std::uint32_t>();
  }
  owned.index.resize(count());
  for (std::uint32_t& i : owned.index) i = any<std::uint32_t>();
  m.runs = owned.runs;
  m.groups = owned.groups;
  m.index = owned.index;
  return owned;
}

void expect_same(const OwnedMessage& a, const OwnedMessage& b) {
  RC_ASSERT(a.message.kind == b.message.kind);
  RC_ASSERT(a.message.request == b.message.request);
  RC_ASSERT(a.message.layer == b.message.layer);
  RC_ASSERT(a.message.iteration == b.message.iteration);
  RC_ASSERT(a.message.rows == b.message.rows);
  RC_ASSERT(a.message.cookie == b.message.cookie);
  RC_ASSERT(a.runs.size() == b.runs.size());
  for (std::size_t i = 0; i < a.runs.size(); ++i) {
    RC_ASSERT(a.runs[i].layer == b.runs[i].layer);
    RC_ASSERT(a.runs[i].first == b.runs[i].first);
    RC_ASSERT(a.runs[i].count == b.runs[i].count);
  }
  RC_ASSERT(a.groups.size() == b.groups.size());
  for (std::size_t i = 0; i < a.groups.size(); ++i) {
    RC_ASSERT(a.groups[i].request == b.groups[i].request);
    RC_ASSERT(a.groups[i].rows == b.groups[i].rows);
  }
  RC_ASSERT(a.index == b.index);
  RC_ASSERT(b.message.runs.data() == b.runs.data());
  RC_ASSERT(b.message.index.size() == b.index.size());
}

// Runs of equal pieces at multiples of their length, as rows of a block are, between single ones.
std::vector<EpochFragment> draw_fragments() {
  std::vector<EpochFragment> fragments;
  const std::size_t stretches = within<std::size_t>(0, 5);
  for (std::size_t s = 0; s < stretches; ++s) {
    EpochFragment f;
    f.fragment.region = RegionId(within<std::uint32_t>(0, 3));
    f.epoch = within<std::uint32_t>(0, 2);
    f.fragment.length = within<std::int64_t>(1, 4096);
    f.fragment.offset = within<std::int64_t>(0, std::int64_t{1} << 40U);
    const bool regular = any<bool>();
    const std::size_t pieces = within<std::size_t>(1, 40);
    for (std::size_t i = 0; i < pieces; ++i) {
      fragments.push_back(f);
      f.fragment.offset += f.fragment.length * within<std::int64_t>(1, 5);
      if (!regular) f.fragment.length = within<std::int64_t>(1, 4096);
    }
  }
  return fragments;
}

std::int64_t bytes_of(const std::vector<EpochFragment>& fragments) {
  std::int64_t sum = 0;
  for (const EpochFragment& f : fragments) sum += f.fragment.length;
  return sum;
}

TraceRecord draw_record(const RecordBounds& bounds) {
  const auto id = [](std::size_t limit) {
    return within<std::uint32_t>(0, static_cast<std::uint32_t>(limit) - 1);
  };
  TraceRecord r;
  r.kind = static_cast<TraceKind>(within<int>(0, static_cast<int>(TraceKind::transfer)));
  r.lane = static_cast<Lane>(within<int>(0, kLaneCount - 1));
  r.detail = within<std::uint8_t>(0, 3);
  r.metadata = any<bool>();
  r.iteration = within<std::int32_t>(0, bounds.iterations);
  r.begin = TimePoint(Duration(within<std::int64_t>(-1000, std::int64_t{1} << 60U)));
  r.end = r.begin + Duration(within<std::int64_t>(0, std::int64_t{1} << 40U));
  r.request = RequestId(id(bounds.requests));
  if (any<bool>()) r.layer = LayerId(id(bounds.layers));
  const bool works = r.kind == TraceKind::compute || r.kind == TraceKind::copy;
  if (works || any<bool>()) r.gpu = GpuId(id(bounds.gpus));
  const bool moves = r.kind == TraceKind::transfer;
  if (moves || any<bool>()) r.source = EndpointId(id(bounds.endpoints));
  if (moves || any<bool>()) r.destination = EndpointId(id(bounds.endpoints));
  r.bytes = Bytes(within<std::int64_t>(0, std::int64_t{1} << 50U));
  r.mask = Bytes(within<std::int64_t>(0, std::int64_t{1} << 50U));
  r.value = any<std::int64_t>();
  r.flow = any<std::uint64_t>();
  return r;
}

const RecordBounds kBounds{5, 33, 4, 3, 100};

}  // namespace

TEST_CASE("messages: read as they were written, and no prefix is one") {
  CHECK(rc::check([] {
    const OwnedMessage owned = draw_message();
    const auto least = within<std::int64_t>(0, 4000);
    const std::vector<std::byte> bytes = encode_message(owned.message, least);
    RC_ASSERT(static_cast<std::int64_t>(bytes.size()) >= least);
    OwnedMessage read;
    RC_ASSERT(decode_message(bytes, read));
    expect_same(owned, read);
    const std::vector<std::byte> whole = encode_message(owned.message);
    const auto cut = within<std::size_t>(0, whole.size() - 1);
    RC_ASSERT(!decode_message(std::span(whole).first(cut), read));
  }));
}

TEST_CASE("fragments: read as they were written, of exactly the bytes that were announced") {
  CHECK(rc::check([] {
    const std::vector<EpochFragment> fragments = draw_fragments();
    std::vector<std::byte> bytes;
    Writer out(bytes);
    encode_fragments(fragments, out);
    std::vector<EpochFragment> read;
    Reader in(bytes);
    RC_ASSERT(decode_fragments(in, bytes_of(fragments), read));
    RC_ASSERT(in.done());
    RC_ASSERT(read.size() == fragments.size());
    for (std::size_t i = 0; i < read.size(); ++i) {
      RC_ASSERT(read[i].epoch == fragments[i].epoch);
      RC_ASSERT(read[i].fragment.region == fragments[i].fragment.region);
      RC_ASSERT(read[i].fragment.offset == fragments[i].fragment.offset);
      RC_ASSERT(read[i].fragment.length == fragments[i].fragment.length);
    }
    Reader other(bytes);
    RC_ASSERT(!decode_fragments(other, bytes_of(fragments) + 1, read));
    const auto cut = within<std::size_t>(0, bytes.size() - 1);
    Reader shorter(std::span(std::as_const(bytes)).first(cut));
    RC_ASSERT(!decode_fragments(shorter, bytes_of(fragments), read));
  }));
}

// A reader that takes one in would wait for its bytes for ever.
TEST_CASE("fragments: a piece of no bytes is refused") {
  for (const std::int64_t length : {0, 1}) {
    std::vector<std::byte> bytes;
    Writer out(bytes);
    encode_fragments(
        std::vector<EpochFragment>{{{RegionId(0), 64, length}, 1}, {{RegionId(0), 128, 5}, 1}},
        out);
    Reader in(bytes);
    std::vector<EpochFragment> read;
    CHECK(decode_fragments(in, length + 5, read) == (length > 0));
  }
}

TEST_CASE("records: a transfer without its ends is refused") {
  TraceRecord r;
  r.kind = TraceKind::transfer;
  r.request = RequestId(1);
  r.source = EndpointId(0);
  std::vector<TraceRecord> read;
  CHECK(!decode_records(encode_records({&r, 1}), kBounds, read).empty());
  r.destination = EndpointId(1);
  CHECK(decode_records(encode_records({&r, 1}), kBounds, read).empty());
}

TEST_CASE("records: times outside of the run and more bytes than there are end the peer") {
  using std::chrono::seconds;
  RecordBounds bounds = kBounds;
  bounds.earliest = TimePoint(-seconds(1));
  bounds.latest = TimePoint(seconds(10));
  bounds.most_bytes = Bytes(1000);
  TraceRecord good;
  good.kind = TraceKind::transfer;
  good.request = RequestId(1);
  good.source = EndpointId(0);
  good.destination = EndpointId(1);
  good.begin = TimePoint(-seconds(1));
  good.end = TimePoint(seconds(10));
  good.bytes = good.mask = Bytes(1000);
  std::vector<TraceRecord> read;
  const auto refused = [&](const TraceRecord& r) {
    return !decode_records(encode_records({&r, 1}), bounds, read).empty();
  };
  CHECK(!refused(good));
  TraceRecord early = good, late = good, large = good, masked = good;
  early.begin -= Duration(1);
  late.end += Duration(1);
  large.bytes = Bytes(1001);
  masked.mask = Bytes(1001);
  for (const TraceRecord& r : {early, late, large, masked}) CHECK(refused(r));
}

TEST_CASE("fragments: rows of one block take four bytes each") {
  std::vector<EpochFragment> rows;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    rows.push_back({{RegionId(1), std::int64_t{512} * (3 * i), 512}, 7});
  }
  std::vector<std::byte> bytes;
  Writer out(bytes);
  encode_fragments(rows, out);
  CHECK(bytes.size() < 4 * rows.size() + 64);
}

TEST_CASE("frames: one flipped bit of head or body is seen") {
  CHECK(rc::check([] {
    FrameHead head;
    head.type = static_cast<FrameType>(within<int>(0, static_cast<int>(FrameType::acks)));
    head.op = static_cast<TransferOp>(within<int>(0, static_cast<int>(TransferOp::read)));
    head.id = any<std::uint64_t>();
    head.payload = within<std::int64_t>(0, kMostPayload);
    head.payload_checksum = any<std::uint32_t>();
    std::vector<std::byte> body(count());
    for (std::byte& b : body) b = static_cast<std::byte>(any<std::uint8_t>());
    std::vector<std::byte> bytes;
    encode_frame(head, body, bytes);
    RC_ASSERT(bytes.size() == kHeadBytes + body.size());
    const auto holds = [&](FrameHead& read) {
      const std::span<const std::byte> all = bytes;
      return decode_head(all.first(kHeadBytes), read).empty() && read.body == body.size() &&
             body_holds(all.first(kHeadBytes), read, all.subspan(kHeadBytes));
    };
    FrameHead read;
    RC_ASSERT(holds(read));
    RC_ASSERT(read.type == head.type);
    RC_ASSERT(read.op == head.op);
    RC_ASSERT(read.id == head.id);
    RC_ASSERT(read.payload == head.payload);
    RC_ASSERT(read.payload_checksum == head.payload_checksum);
    const auto at = within<std::size_t>(0, bytes.size() - 1);
    bytes[at] ^= static_cast<std::byte>(1U << within<unsigned>(0, 7));
    RC_ASSERT(!holds(read));
  }));
}

TEST_CASE("acks and configs: read as they were written") {
  CHECK(rc::check([] {
    std::vector<Ack> acks(count());
    for (Ack& ack : acks) {
      ack.id = any<std::uint64_t>();
      ack.status =
          static_cast<TransferStatus>(within<int>(0, static_cast<int>(TransferStatus::failed)));
      ack.applied_ps = within<std::int64_t>(0, std::int64_t{1} << 61U);
    }
    std::vector<std::byte> body;
    encode_acks(acks, body);
    std::vector<Ack> read;
    RC_ASSERT(decode_acks(body, read));
    RC_ASSERT(read.size() == acks.size());
    for (std::size_t i = 0; i < acks.size(); ++i) {
      RC_ASSERT(read[i].id == acks[i].id);
      RC_ASSERT(read[i].status == acks[i].status);
      RC_ASSERT(read[i].applied_ps == acks[i].applied_ps);
    }
    Config config(within<std::size_t>(0, 20));
    for (std::size_t i = 0; i < config.size(); ++i) {
      // Names are the keys.
      config[i] = {std::to_string(i) + ' ' + any<std::string>(), any<std::string>()};
    }
    Config again;
    RC_ASSERT(decode_config(encode_config(config), again));
    RC_ASSERT(again == config);
    RC_ASSERT(differences(config, again).empty());
  }));
}

TEST_CASE("records: read as they were written, and those that name what is not there are refused") {
  CHECK(rc::check([] {
    std::vector<TraceRecord> records(within<std::size_t>(0, 30));
    for (TraceRecord& r : records) r = draw_record(kBounds);
    const std::vector<std::byte> bytes = encode_records(records);
    std::vector<TraceRecord> read;
    RC_ASSERT(decode_records(bytes, kBounds, read) == "");
    RC_ASSERT(encode_records(read) == bytes);
    const auto cut = within<std::size_t>(0, bytes.size() - 1);
    read.clear();
    RC_ASSERT(!decode_records(std::span(bytes).first(cut), kBounds, read).empty());
    RecordBounds none = kBounds;
    none.requests = 0;
    read.clear();
    RC_ASSERT(decode_records(bytes, none, read).empty() == records.empty());
  }));
}

}  // namespace kvlane::live
