// The rules of the RDMA backend that need no device: which GID, whose offer, how operations are cut
// into work requests and records, and that nothing from the network is believed.

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "calibrate/live/rdma/offer.h"
#include "calibrate/live/rdma/plan.h"
#include "calibrate/live/rdma/record.h"
#include "calibrate/live/rdma/ring.h"

namespace kvlane::live {
namespace {

GidEntry entry(int index, GidType type, const std::string& address) {
  return {index, type, *gid_of_address(address)};
}

TEST_CASE("choose_gid: by type and address, never the first or a link-local one") {
  const std::vector<GidEntry> table{
      entry(0, GidType::roce_v1, "fe80::1"),  entry(1, GidType::roce_v2, "fe80::1"),
      entry(2, GidType::roce_v1, "10.0.0.1"), entry(3, GidType::roce_v2, "fd00::1"),
      entry(4, GidType::roce_v2, "10.0.0.1"), entry(5, GidType::roce_v2, "10.0.1.1")};
  std::string error;
  CHECK(choose_gid(table, -1, "", error)->index == 4);
  CHECK(choose_gid(table, -1, "10.0.1.1", error)->index == 5);
  CHECK(choose_gid(table, -1, "fd00::1", error)->index == 3);
  CHECK(choose_gid(table, 1, "10.0.1.1", error)->index == 1);
  CHECK(error.empty());
  CHECK(!choose_gid(table, -1, "10.0.0.9", error));
  CHECK(error.find("no GID of RoCE v2 for 10.0.0.9: 0: fe80::1 RoCE v1") == 0);
  CHECK(!choose_gid(table, 9, "", error));
  CHECK(!choose_gid(table, -1, "rdma0", error));
  CHECK(error == "`rdma0` is no address; expected one of IPv4 or IPv6");
  CHECK(!choose_gid(std::span(table).first(3), -1, "", error));
  CHECK(!choose_gid({}, -1, "", error));
  const std::vector<GidEntry> infiniband{{0, GidType::ib, *gid_of_address("fd00::7")}};
  CHECK(choose_gid(infiniband, -1, "10.0.0.1", error)->index == 0);
}

RdmaOffer some_offer() {
  RdmaOffer o;
  o.process_epoch = 7;
  o.connection = 0xabcdef01;
  o.gid = *gid_of_address("10.9.0.1");
  o.mtu_code = 3;
  o.read_depth = 16;
  o.receives = 512;
  o.queues = 2;
  o.pool = {0x7f0000000000, 1 << 30, 0x1234};
  o.inbox = {0x7e0000000000, 8 << 20, 0x1235};
  for (std::uint32_t i = 0; i < queue_pair_count(2); ++i) o.queue_pairs.push_back({17 + i, 5 * i});
  return o;
}

TEST_CASE("offers: read back as written; what does not fit is named with both values") {
  const RdmaOffer ours = some_offer();
  std::string error;
  const auto back = parse_offer(encode_offer(ours), error);
  REQUIRE(back);
  CHECK(error.empty());
  CHECK(encode_offer(*back) == encode_offer(ours));
  CHECK(agree(ours, *back).empty());
  RdmaOffer theirs = ours;
  theirs.queues = 3;
  CHECK(agree(ours, theirs) == "2 queues a lane here, 3 at the peer");
  theirs = ours;
  theirs.checksum = true;
  CHECK(agree(ours, theirs) == "checksums are off here, on at the peer");
  theirs = ours;
  theirs.ethernet = false;
  CHECK(agree(ours, theirs) == "this end is on RoCE, the peer on InfiniBand");
}

TEST_CASE("offers: no bytes from a stranger get further than the parser") {
  std::string error;
  const auto good = encode_offer(some_offer());
  for (std::size_t n = 0; n < good.size(); ++n) {
    CHECK(!parse_offer(std::span(good).first(n), error));
  }
  auto longer = good;
  longer.push_back(std::byte{0});
  CHECK(!parse_offer(longer, error));
  auto other = good;
  other[4] = std::byte{9};
  CHECK(!parse_offer(other, error));
  CHECK(error == "an RDMA offer of version 9; expected 1");
  const auto refused = [&](auto&& change, const std::string& text) {
    RdmaOffer o = some_offer();
    change(o);
    CHECK(!parse_offer(encode_offer(o), error));
    CHECK(error == text);
  };
  refused([](RdmaOffer& o) { o.mtu_code = 6; }, "an RDMA offer with MTU code 6; expected 1 to 5");
  refused([](RdmaOffer& o) { o.receives = 1; },
          "an RDMA offer with 1 receives; expected 2 to 65536");
  refused([](RdmaOffer& o) { o.gid = {}; }, "an RDMA offer with no address: GID and LID are zero");
  refused([](RdmaOffer& o) { o.pool.address = ~std::uint64_t{0} - 5; },
          "an RDMA offer with a pool of 1073741824 bytes at 0xfffffffffffffffa");
  refused([](RdmaOffer& o) { o.inbox.bytes = 100; },
          "an RDMA offer with an inbox of 100 bytes; expected at most 1073741824 and a multiple of "
          "64");
  refused([](RdmaOffer& o) { o.queue_pairs[3].number = 1 << 24; },
          "an RDMA offer with queue pair 0x1000000 from PSN 0xf; expected 24 bits");
  std::mt19937 random(3);
  for (int i = 0; i < 20000; ++i) {
    auto bytes = good;
    for (int k = 0; k < 4; ++k) bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    if (const auto offer = parse_offer(bytes, error)) {
      CHECK(offer->queue_pairs.size() == queue_pair_count(offer->queues));
    }
  }
}

struct Ends {
  Pool pool{std::size_t{4} << 20U};
  RegionTable regions{pool};
  RemoteRegions remote;
  Ends() {
    REQUIRE(regions.create(RegionId(1), 1 << 20));
    REQUIRE(regions.create(RegionId(2), 1 << 20));
    // Next to each other at the peer, with a gap here that the second's alignment makes.
    remote.set({RegionId(1), 5, 0, 1 << 20});
    remote.set({RegionId(2), 6, 1 << 20, 1 << 20});
  }
  auto place(std::vector<Fragment> fragments, std::int64_t longest = 1 << 20) {
    return place_fragments(fragments, regions, remote, pool.size(), longest);
  }
};

TEST_CASE("place_fragments: neighbours are one, what is long is cut, what is outside is refused") {
  Ends ends;
  const RegionId r(1);
  auto pieces = ends.place({{r, 0, 100}, {r, 100, 50}, {r, 200, 0}, {r, 300, 10}});
  REQUIRE(pieces);
  REQUIRE(pieces->size() == 2);
  CHECK((*pieces)[0].named.fragment.length == 150);
  CHECK((*pieces)[0].named.epoch == 5);
  CHECK((*pieces)[1].remote == 300);
  pieces = ends.place({{r, 0, 1000}, {r, 1000, 1000}}, 300);
  REQUIRE(pieces);
  std::int64_t at = 0;
  for (const Piece& piece : *pieces) {
    CHECK(piece.remote == at);
    CHECK(piece.named.fragment.length <= 300);
    at += piece.named.fragment.length;
  }
  CHECK(at == 2000);
  CHECK(!ends.place({{RegionId(2), (1 << 20) - 5, 5}, {RegionId(1), 0, 4}, {RegionId(1), 4, 4}})
             ->empty());
  ends.remote.set({r, 5, 0, 100});
  CHECK(!ends.place({{r, 90, 11}}));
  ends.remote.set({r, 5, std::int64_t{1} << 40, 1 << 20});  // outside of the peer's own pool
  CHECK(!ends.place({{r, 0, 1}}));
  ends.remote.clear();
  CHECK(!ends.place({{r, 0, 1}}));
}

TEST_CASE("make_runs: one remote run a request, local pieces within the SGE limit") {
  std::vector<Piece> pieces;
  for (int i = 0; i < 10; ++i) {
    // Scattered here, without gaps at the peer except after the seventh.
    pieces.push_back({{{RegionId(1), i * 64, 64}, 1}, i * 128, i * 64 + (i > 6 ? 1000 : 0)});
  }
  const auto runs = make_runs(pieces, 4, 1 << 20);
  REQUIRE(runs.size() == 3);
  CHECK(runs[0].pieces == 4);
  CHECK(runs[1].pieces == 3);
  CHECK(runs[2].first == 7);
  CHECK(runs[2].bytes == 3 * 64);
  CHECK(make_runs(pieces, 30, 128).size() == 6);  // by length: 2 2 2 1, 2 1
}

TEST_CASE("packing: many small pieces only; parts keep both limits and lose nothing") {
  const auto some = [](std::size_t count, std::int64_t length) {
    std::vector<Piece> pieces(count);
    for (std::size_t i = 0; i < count; ++i) {
      pieces[i].named.fragment = {RegionId(1), static_cast<std::int64_t>(i) * length * 2, length};
    }
    return pieces;
  };
  CHECK(!packing_wins(some(16, 100)));
  CHECK(packing_wins(some(17, 100)));
  CHECK(!packing_wins(some(100, 16 * 1024)));
  const auto pieces = some(1000, 700);
  const auto parts = make_parts(pieces, {64, 20000});
  std::size_t next = 0;
  for (const Part& part : parts) {
    CHECK(part.first == next);
    CHECK(part.pieces <= 64);
    CHECK(part.bytes <= 20000);
    CHECK(part.bytes == 700 * static_cast<std::int64_t>(part.pieces));
    next += part.pieces;
  }
  CHECK(next == 1000);
  CHECK(make_parts({}, {64, 20000}).size() == 1);
  CHECK(ends_of(names_of(pieces)).size() == 2);
}

TEST_CASE("records: read back as written; sizes that do not fit into the slot are refused") {
  std::vector<EpochFragment> names{{{RegionId(3), 128, 40}, 2}, {{RegionId(3), 512, 24}, 2}};
  std::vector<std::byte> list;
  Writer out(list);
  encode_fragments(names, out);
  RecordHeader header;
  header.kind = RecordKind::packed;
  header.has_message = header.has_checksum = true;
  header.operation = 77;
  header.part = 3;
  header.checksum = 0xdeadbeef;
  header.message_bytes = 5;
  header.list_bytes = static_cast<std::uint32_t>(list.size());
  header.piece_bytes = 64;
  std::vector<std::byte> slot(kRecordHeaderBytes + 5 + list.size() + 64, std::byte{0x55});
  encode_record_header(header, slot);
  std::copy(list.begin(), list.end(), slot.begin() + kRecordHeaderBytes + 5);
  std::string error;
  const auto record = parse_record(slot, error);
  REQUIRE_MESSAGE(record, error);
  CHECK(record->header.operation == 77);
  CHECK(record->header.part == 3);
  CHECK(record->header.checksum == 0xdeadbeef);
  CHECK(record->message.size() == 5);
  CHECK(record->payload.size() == 64);
  REQUIRE(record->pieces.size() == 2);
  CHECK(record->pieces[1].fragment.offset == 512);
  for (std::size_t n = 0; n < slot.size(); ++n)
    CHECK(!parse_record(std::span(slot).first(n), error));
  std::mt19937 random(5);
  for (int i = 0; i < 20000; ++i) {
    auto bytes = slot;
    for (int k = 0; k < 3; ++k) {
      bytes[random() % (kRecordHeaderBytes + 5 + list.size())] = static_cast<std::byte>(random());
    }
    if (const auto parsed = parse_record(bytes, error)) {
      CHECK(parsed->message.size() + parsed->payload.size() <= bytes.size());
    }
  }
}

TEST_CASE("acks: read back as written; nothing else is taken for some") {
  const std::vector<SlotAck> acks{{1, AckStatus::applied, 5}, {9, AckStatus::checksum, 1LL << 60}};
  std::array<std::byte, 240> bytes{};
  const std::size_t size = encode_acks(acks, bytes);
  CHECK(size == 2 * kAckBytes);
  const auto back = parse_acks(std::span(bytes).first(size));
  REQUIRE(back);
  CHECK((*back)[0].applied_ps == 5);
  CHECK((*back)[1].status == AckStatus::checksum);
  CHECK(!parse_acks({}));
  CHECK(!parse_acks(std::span(bytes).first(17)));
  std::array<std::byte, 240> early{};
  CHECK(!parse_acks(std::span(early).first(
      encode_acks(std::vector<SlotAck>{{1, AckStatus::applied, -1}}, early))));
  bytes[4] = std::byte{3};
  CHECK(!parse_acks(std::span(bytes).first(size)));
}

TEST_CASE("Ring: pieces never overlap, whatever the order in which they come back") {
  constexpr std::uint64_t kBytes = 64 * 100;
  Ring ring(kBytes);
  std::mt19937 random(1);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> taken;
  std::uint64_t given = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::uint64_t bytes = 1 + random() % 1000;
    if (const auto at = ring.take(bytes)) {
      ++given;
      CHECK(*at % 64 == 0);
      CHECK(*at + bytes <= kBytes);
      for (const auto& [other, length] : taken) {
        CHECK((*at >= other + length || other >= *at + bytes));
      }
      taken.emplace_back(*at, bytes);
    }
    if (!taken.empty() && random() % 3 != 0) {
      const std::size_t which = random() % taken.size();
      CHECK(ring.give_back(taken[which].first));
      CHECK(!ring.give_back(taken[which].first));
      taken.erase(taken.begin() + static_cast<std::ptrdiff_t>(which));
    }
  }
  CHECK(given > 5000);
  for (const auto& piece : taken) ring.give_back(piece.first);
  CHECK(ring.used() == 0);
  CHECK(!ring.take(kBytes / 2, 1));
  CHECK(ring.take(kBytes));
}

}  // namespace
}  // namespace kvlane::live
