#pragma once
// What every wire must keep, checked on bytes and not on statuses (sim/port/transport.h,
// calibrate/live/transport/connection.h). Used with each backend.

#include <doctest/doctest.h>

#include "tests/live/pair.h"

namespace kvlane::live::test {

struct Statuses {
  std::vector<std::uint64_t> order;  // argument of note() in the order of completion
  std::vector<TransferStatus> status;
  struct Slot {
    Statuses* all;
    std::uint64_t number;
  };
  std::vector<std::unique_ptr<Slot>> slots;
  Callback note(std::uint64_t number) {
    slots.push_back(std::make_unique<Slot>(Slot{this, number}));
    return {[](void* context, std::uint64_t result) {
              auto& slot = *static_cast<Slot*>(context);
              slot.all->order.push_back(slot.number);
              slot.all->status.push_back(static_cast<TransferStatus>(result));
            },
            slots.back().get(), 0};
  }
  bool all_ok() const {
    return std::all_of(status.begin(), status.end(),
                       [](TransferStatus s) { return s == TransferStatus::ok; });
  }
};

inline TransferSpec spec_of(std::size_t from, TransferOp op, std::span<const Fragment> pieces,
                            Lane lane = Lane::proactive) {
  TransferSpec spec;
  spec.op = op;
  spec.lane = lane;
  spec.poster = EndpointId(from);
  spec.peer = EndpointId(1 - from);
  std::int64_t bytes = 0;
  for (const Fragment& f : pieces) bytes += f.length;
  spec.bytes = Bytes(bytes);
  spec.fragments = pieces;
  return spec;
}

inline std::vector<Fragment> scattered(std::size_t pieces, std::int64_t length, std::int64_t stride,
                                       std::int64_t start = 0) {
  std::vector<Fragment> list;
  for (std::size_t i = 0; i < pieces; ++i) {
    list.push_back({kRegion, start + static_cast<std::int64_t>(i) * stride, length});
  }
  return list;
}

template <class AnyEnd>
bool holds_pattern(AnyEnd& end, std::span<const Fragment> pieces, std::uint64_t seed) {
  return std::all_of(pieces.begin(), pieces.end(), [&](const Fragment& f) {
    const auto length = static_cast<std::size_t>(f.length);
    return wrong_bytes(seed, f.offset, {end.regions.own(f.region, f.offset, f.length), length}) ==
           0;
  });
}

template <class AnyEnd>
bool holds_zeros(AnyEnd& end, std::int64_t offset, std::int64_t length) {
  const std::byte* bytes = end.regions.own(kRegion, offset, length);
  return std::all_of(bytes, bytes + length, [](std::byte b) { return b == std::byte{0}; });
}

inline constexpr std::size_t kConformBytes = std::size_t{8} << 20U;
inline constexpr std::uint64_t kConformSeed = 5;

// The port's own rules, of every world with memory. `fresh(options)`: two ends with regions of
// kConformBytes, the first filled with the pattern of kConformSeed.
template <class Fresh>
void conform_to_port(const Fresh& fresh) {
  constexpr std::size_t kBytes = kConformBytes;
  constexpr std::uint64_t kSeed = kConformSeed;
  SUBCASE("every operation, 1 to 4096 pieces, in both directions") {
    for (const bool checksum : {false, true}) {
      for (const std::size_t count : {1U, 2U, 17U, 300U, 4096U}) {
        for (const std::int64_t length : {1, 63, 512}) {
          auto pair = fresh(ConnectionOptions{1, checksum});
          CAPTURE(checksum);
          CAPTURE(count);
          CAPTURE(length);
          const auto pieces = scattered(count, length, 2 * length);
          Statuses done;
          Message message;
          message.cookie = 42;
          TransferSpec write = spec_of(0, TransferOp::write, std::span(pieces).first(1));
          TransferSpec imm = spec_of(0, TransferOp::write_with_imm, pieces);
          imm.message = message;
          auto& to = *pair->ends[1];
          to.witness.look = [&](const Message&) { return holds_pattern(to, pieces, kSeed); };
          pair->ends[0]->transport.post(write, done.note(0));
          pair->ends[0]->transport.post(imm, done.note(1));
          CHECK(done.order.empty());  // never inside post()
          pair->settle();
          CHECK(done.all_ok());
          CHECK(done.order == std::vector<std::uint64_t>{0, 1});
          REQUIRE(to.witness.seen.size() == 1);
          CHECK(to.witness.seen[0].message.message.cookie == 42);
          CHECK(to.witness.seen[0].bytes_were_there);
          // What lies between the pieces was not touched.
          for (std::size_t i = 0; i < std::min<std::size_t>(count, 50); ++i) {
            CHECK(holds_zeros(to, pieces[i].offset + length, length));
          }
          // Back by a read, into an emptied piece of the first end.
          std::ranges::fill(pair->ends[0]->regions.bytes_of(kRegion), std::byte{0});
          TransferSpec read = spec_of(0, TransferOp::read, pieces, Lane::on_demand);
          pair->ends[0]->transport.post(read, done.note(2));
          pair->settle();
          CHECK(done.order.size() == 3);
          CHECK(done.all_ok());
          CHECK(holds_pattern(*pair->ends[0], pieces, kSeed));
          CHECK(pair->ends[0]->witness.fetched_pieces > 0);
          CHECK(pair->ends[0]->lost == "");
          CHECK(to.lost == "");
        }
      }
    }
  }
  SUBCASE("operations without bytes complete, and their messages arrive") {
    auto pair = fresh(ConnectionOptions{});
    Statuses done;
    std::uint64_t n = 0;
    for (const TransferOp op :
         {TransferOp::write, TransferOp::write_with_imm, TransferOp::send, TransferOp::read}) {
      pair->ends[1]->transport.post(spec_of(1, op, {}, Lane::control), done.note(n++));
    }
    pair->settle();
    CHECK(done.order.size() == 4);
    CHECK(done.all_ok());
    CHECK(pair->ends[0]->witness.seen.size() == 2);
  }
  SUBCASE("a message follows the data posted before it on its queue, on every lane and queue") {
    ConnectionOptions options;
    options.queues = 3;
    auto pair = fresh(options);
    std::mt19937 random(11);
    Statuses done;
    std::vector<std::vector<Fragment>> pieces;
    auto& to = *pair->ends[1];
    to.witness.look = [&](const Message& m) {
      return holds_pattern(to, pieces[m.cookie], kSeed) && m.runs.size() == m.cookie % 7;
    };
    std::vector<BlockRun> runs(7, BlockRun{1, 2, 3});
    std::map<std::pair<Lane, std::uint32_t>, std::vector<std::uint64_t>> posted;
    // Pieces of their own for each operation, so that what lies there says which came.
    const std::int64_t room = kBytes / 300;
    for (std::uint64_t i = 0; i < 300; ++i) {
      const std::size_t count = 1 + random() % 20;
      const auto length = static_cast<std::int64_t>(1 + random() % (room / 40));
      pieces.push_back(scattered(count, length, 2 * length, static_cast<std::int64_t>(i) * room));
    }
    for (std::uint64_t i = 0; i < 300; ++i) {
      const auto lane = static_cast<Lane>(random() % kLaneCount);
      const auto queue = static_cast<std::uint32_t>(random() % 3);
      TransferSpec write = spec_of(0, TransferOp::write, pieces[i], lane);
      write.queue = queue;
      TransferSpec tell = spec_of(0, TransferOp::send, {}, lane);
      tell.queue = queue;
      tell.message.cookie = i;
      tell.message.runs = std::span(runs).first(i % 7);
      tell.bytes = Bytes(static_cast<std::int64_t>(random() % 2000));
      posted[{lane, queue}].push_back(i);
      pair->ends[0]->transport.post(write, done.note(2 * i));
      pair->ends[0]->transport.post(tell, done.note(2 * i + 1));
    }
    pair->settle();
    CHECK(done.order.size() == 600);
    CHECK(done.all_ok());
    REQUIRE(to.witness.seen.size() == 300);
    for (const auto& seen : to.witness.seen) CHECK(seen.bytes_were_there);
    // In order on each queue.
    for (const auto& [queue, cookies] : posted) {
      std::vector<std::uint64_t> came;
      for (const auto& seen : to.witness.seen) {
        const std::uint64_t cookie = seen.message.message.cookie;
        if (std::find(cookies.begin(), cookies.end(), cookie) != cookies.end()) {
          came.push_back(cookie);
        }
      }
      CHECK(came == cookies);
    }
  }
  SUBCASE("the trace has one record an operation, with its bytes and times in order") {
    auto pair = fresh(ConnectionOptions{});
    Statuses done;
    const auto pieces = scattered(64, 4096, 8192);
    for (int i = 0; i < 5; ++i) {
      pair->ends[0]->transport.post(spec_of(0, TransferOp::write_with_imm, pieces), done.note(0));
    }
    pair->settle();
    const auto& records = pair->ends[0]->witness.records;
    REQUIRE(records.size() == 5);
    for (const TraceRecord& r : records) {
      CHECK(r.bytes == Bytes(64 * 4096));
      CHECK(r.begin <= r.end);
      CHECK(r.end <= pair->clock());
      CHECK(r.source == EndpointId(0));
      CHECK(r.destination == EndpointId(1));
    }
  }
}

using MakePair =
    std::function<std::unique_ptr<Pair>(std::size_t pool, std::size_t region, ConnectionOptions)>;

// `one_sided`: the peer's processor has no part in a write (RDMA). What no peer that keeps the
// rules would send is then noticed after it has landed.
inline void conform(const MakePair& make, bool one_sided = false) {
  constexpr std::size_t kBytes = kConformBytes;
  const auto fresh = [&](ConnectionOptions options = {}) {
    std::unique_ptr<Pair> pair = make(2 * kBytes, kBytes, options);
    REQUIRE_MESSAGE(pair->error().empty(), pair->error());
    fill_pattern(kConformSeed, 0, pair->ends[0]->regions.bytes_of(kRegion));
    return pair;
  };

  conform_to_port(fresh);
  SUBCASE("what the peer does not expose any more is not written, and the operation says so") {
    auto pair = fresh(ConnectionOptions{});
    Statuses done;
    const auto pieces = scattered(4, 4096, 8192);
    // Same number, new owner; not the same place, while the first end can still write there.
    pair->ends[1]->regions.withdraw(kRegion, {0});
    CHECK(pair->ends[1]->regions.create(kRegion, kBytes));
    CHECK(pair->ends[1]->regions.draining() == 1);
    std::ranges::fill(pair->ends[1]->regions.bytes_of(kRegion), std::byte{0});
    TransferSpec late = spec_of(0, TransferOp::write_with_imm, pieces);
    pair->ends[0]->transport.post(late, done.note(0));
    pair->settle();
    REQUIRE(done.status.size() == 1);
    CHECK(done.status[0] == TransferStatus::failed);
    CHECK(pair->ends[1]->witness.seen.empty());
    if (!one_sided) CHECK(holds_zeros(*pair->ends[1], 0, kBytes));
  }
  SUBCASE("bytes outside of a region end the peer, nothing is written") {
    auto pair = fresh(ConnectionOptions{});
    Statuses done;
    RegionPlace place;
    place.region = kRegion;
    place.epoch = pair->ends[1]->regions.epoch_of(kRegion);
    place.length = std::int64_t{64} << 20U;
    pair->ends[0]->transport.remote_of(EndpointId(1)).set(place);
    // The poster's region is made larger than the peer's: the same offsets do not exist there.
    pair->ends[0]->regions.withdraw(kRegion, {});
    REQUIRE(pair->ends[0]->regions.create(kRegion, kBytes + 8192));
    pair->ends[0]->regions.expose(kRegion);
    const auto pieces = scattered(1, 8192, 8192, kBytes - 4096);
    pair->ends[0]->transport.post(spec_of(0, TransferOp::write_with_imm, pieces), done.note(0));
    pair->settle(std::chrono::seconds(3));
    // A poster that knows the peer's memory can see it for itself.
    CHECK((pair->ends[0]->lost.size() + pair->ends[1]->lost.size() > 0 ||
           (one_sided && done.status == std::vector{TransferStatus::failed})));
    if (!one_sided) CHECK(holds_zeros(*pair->ends[1], kBytes - 4096, 4096));
  }
  SUBCASE("a message that names what is not there ends the peer") {
    auto pair = fresh(ConnectionOptions{});
    Statuses done;
    TransferSpec tell = spec_of(0, TransferOp::send, {}, Lane::control);
    tell.message.kind = MessageKind::release;  // what the test's inspector refuses
    pair->ends[0]->transport.post(tell, done.note(0));
    pair->settle(std::chrono::seconds(2));
    CHECK(pair->ends[1]->lost == "released what was never there");
    CHECK(pair->ends[1]->witness.seen.empty());
  }
  SUBCASE("a peer that is closed is noticed, and everything in flight to it fails once") {
    auto pair = fresh(ConnectionOptions{});
    Statuses done;
    const auto pieces = scattered(1, kBytes, kBytes);
    for (std::uint64_t i = 0; i < 20; ++i) {
      pair->ends[0]->transport.post(spec_of(0, TransferOp::write_with_imm, pieces), done.note(i));
    }
    pair->ends[1]->transport.close();
    pair->settle();
    CHECK(done.status.size() == 20);
    CHECK(!pair->ends[0]->lost.empty());
    CHECK(pair->ends[0]->transport.in_flight() == 0);
    pair->ends[0]->transport.post(spec_of(0, TransferOp::write_with_imm, pieces), done.note(20));
    pair->settle();
    CHECK(done.status.size() == 21);
    CHECK(done.status.back() == TransferStatus::failed);
  }
}

}  // namespace kvlane::live::test
