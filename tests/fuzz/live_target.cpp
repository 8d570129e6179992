// Everything that a live run reads from a socket. The first byte picks the reader: 'a' a frame of
// data, 'b' a message, 'c' fragments, 'd' acks, 'e' a config, 'f' regions, 'g' a start, 'h' a
// prepare, 'i' trace records, 'j' the first bytes of a socket, 'k' an address, 'l' and 'm' a whole
// session with a stranger, who connects or listens, 'n' frames on a stream, 'o' an RDMA offer, 'p'
// a slot of an RDMA inbox, 'q' what comes back for it. What a reader accepts it writes the same,
// where there is one form.

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "calibrate/live/rdma/offer.h"
#include "calibrate/live/rdma/record.h"
#include "calibrate/live/role/options.h"
#include "calibrate/live/role/records.h"
#include "calibrate/live/role/run_frames.h"
#include "calibrate/live/session/handshake.h"
#include "calibrate/live/socket/address.h"
#include "calibrate/live/socket/listener.h"
#include "calibrate/live/tcp/tcp_connection.h"
#include "calibrate/live/wire/frame.h"
#include "calibrate/live/wire/message.h"
#include "sim/base/check.h"

namespace {

using namespace kvlane;        // NOLINT(google-build-using-namespace): a program of one file
using namespace kvlane::live;  // NOLINT(google-build-using-namespace)

using Bytes8 = std::span<const std::byte>;

void data_frame(Bytes8 bytes) {
  if (bytes.size() < kHeadBytes) return;
  FrameHead head;
  if (!decode_head(bytes.first(kHeadBytes), head).empty()) return;
  const Bytes8 rest = bytes.subspan(kHeadBytes);
  if (rest.size() < head.body) return;
  const Bytes8 body = rest.first(head.body);
  // A fuzzer cannot guess a checksum: what stands behind it is read all the same.
  (void)body_holds(bytes.first(kHeadBytes), head, body);
  Reader in(body);
  std::vector<EpochFragment> fragments;
  if (decode_fragments(in, head.payload, fragments)) {
    OwnedMessage message;
    (void)decode_message(in.rest(), message);
  }
}

void message(Bytes8 bytes) {
  OwnedMessage owned;
  if (!decode_message(bytes, owned)) return;
  const std::vector<std::byte> again = encode_message(owned.message);
  // Behind a message there may be filling.
  KVLANE_CHECK(
      again.size() <= bytes.size() && std::memcmp(again.data(), bytes.data(), again.size()) == 0,
      "a message of {} bytes became one of {}", bytes.size(), again.size());
}

void fragments(Bytes8 bytes) {
  if (bytes.size() < 8) return;
  std::int64_t announced = 0;
  std::memcpy(&announced, bytes.data(), 8);
  std::vector<EpochFragment> read;
  Reader in(bytes.subspan(8));
  if (!decode_fragments(in, announced, read)) return;
  std::int64_t sum = 0;
  for (const EpochFragment& f : read) {
    KVLANE_CHECK(f.fragment.length >= 0 && f.fragment.offset >= 0, "a fragment of {} at {}",
                 f.fragment.length, f.fragment.offset);
    sum += f.fragment.length;
  }
  KVLANE_CHECK(sum == announced, "{} of {} bytes", sum, announced);
  std::vector<std::byte> written;
  Writer out(written);
  encode_fragments(read, out);
  std::vector<EpochFragment> again;
  Reader second(written);
  KVLANE_CHECK(decode_fragments(second, announced, again) && again.size() == read.size(),
               "{} fragments, {} read again", read.size(), again.size());
}

void acks(Bytes8 bytes) {
  std::vector<Ack> read;
  if (!decode_acks(bytes, read)) return;
  std::vector<std::byte> again;
  encode_acks(read, again);
  KVLANE_CHECK(std::ranges::equal(again, bytes), "{} acks changed", read.size());
}

void config(Bytes8 bytes) {
  Config read;
  if (!decode_config(bytes, read)) return;
  KVLANE_CHECK(std::ranges::equal(encode_config(read), bytes), "{} keys changed", read.size());
  (void)differences(read, {{"model", "llama"}});
}

void places(Bytes8 bytes) {
  const auto read = decode_places(bytes, 64);
  if (!read) return;
  for (const RegionPlace& place : *read) {
    KVLANE_CHECK(place.offset >= 0 && place.length >= 0, "a region of {} at {}", place.length,
                 place.offset);
  }
  KVLANE_CHECK(std::ranges::equal(encode_places(*read), bytes), "{} regions changed", read->size());
}

void start(Bytes8 bytes) {
  const auto read = decode_start(bytes, 64);
  if (read) KVLANE_CHECK(std::ranges::equal(encode_start(*read), bytes), "a start changed");
}

void prepare(Bytes8 bytes) {
  const auto read = decode_prepare(bytes);
  if (read) KVLANE_CHECK(std::ranges::equal(encode_prepare(*read), bytes), "a prepare changed");
}

void records(Bytes8 bytes) {
  std::vector<TraceRecord> read;
  if (!decode_records(bytes, {8, 33, 4, 3, 100}, read).empty()) return;
  sort_records(read);
  std::vector<TraceRecord> again;
  KVLANE_CHECK(decode_records(encode_records(read), {8, 33, 4, 3, 100}, again).empty() &&
                   again.size() == read.size(),
               "{} records changed", read.size());
}

void hello(Bytes8 bytes) {
  std::array<std::byte, kHelloBytes> first{};
  std::memcpy(first.data(), bytes.data(), std::min(bytes.size(), first.size()));
  kvlane::live::Hello read;
  if (!decode_hello(first, read)) return;
  kvlane::live::Hello again;
  KVLANE_CHECK(decode_hello(encode_hello(read), again) && again.kind == read.kind &&
                   again.lane == read.lane && again.queue == read.queue &&
                   again.token == read.token,
               "a hello changed");
}

// Digits, brackets and colons alone: a name would be asked for in the network.
void address(Bytes8 bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.find_first_not_of("0123456789.:[]abcdef") != std::string_view::npos) return;
  const std::string_view host = text.substr(0, text.rfind(':'));
  if (host.find_first_not_of("0123456789.:[]") != std::string_view::npos &&
      host.find(':') == std::string_view::npos) {
    return;
  }
  try {
    const SocketAddress read = parse_address(text, "--peer");
    KVLANE_CHECK(parse_address(read.text(), "--peer").text() == read.text(), "{} became another",
                 read.text());
  } catch (const OptionError&) {
  }
}

// The stranger has sent all that it has to say and hangs up: the session must end, by itself.
void session(Bytes8 bytes, bool listens) {
  std::array<int, 2> ends{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) return;
  const ssize_t sent = ::send(ends[0], bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  KVLANE_CHECK(sent <= static_cast<ssize_t>(bytes.size()), "{} sent", sent);
  ::shutdown(ends[0], SHUT_WR);
  try {
    WallLoop loop;
    Session one(loop, ends[1], {std::chrono::seconds(60), "the stranger"});
    const Identity identity{"a secret that the stranger has not", "1.0"};
    const kvlane::Duration limit = std::chrono::seconds(60);
    if (listens) {
      shake_hands_passive(one, identity, {{"model", "llama"}}, {}, limit);
    } else {
      shake_hands_active(one, identity, {{"model", "llama"}}, limit);
    }
    KVLANE_CHECK(false, "a stranger was let in");
  } catch (const PeerError&) {
  }
  ::close(ends[0]);
}

// Whole frames of any kind and id into a connection that has a region and a read in flight. Their
// checksums are right: nobody could guess one.
struct Heard final : ConnectionOwner {
  void completed(std::uint64_t, TransferStatus, TimePoint, TimePoint) override {}
  void arrived(Lane, std::uint32_t, std::span<const std::byte> bytes) override {
    OwnedMessage message;
    (void)decode_message(bytes, message);
  }
  void lost(const std::string& reason) override { KVLANE_CHECK(!reason.empty(), "no reason"); }
};

void stream(Bytes8 bytes) {
  std::vector<std::byte> sent;
  Reader in(bytes);
  while (in.ok() && !in.rest().empty() && sent.size() < 40'000) {
    FrameHead head;
    head.type = static_cast<FrameType>(in.get<std::uint8_t>() % 4);
    head.id = in.get<std::uint8_t>();
    head.payload = in.get<std::uint16_t>() % 8192;
    const std::size_t body = std::min<std::size_t>(in.get<std::uint16_t>(), in.rest().size());
    if (!in.ok()) break;
    encode_frame(head, in.get_bytes(body), sent);
    sent.resize(sent.size() + static_cast<std::size_t>(head.payload));
  }
  std::vector<int> own, theirs;
  for (std::size_t i = 0; i < kLaneCount; ++i) {
    std::array<int, 2> ends{-1, -1};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0) {
      break;
    }
    own.push_back(ends[0]);
    theirs.push_back(ends[1]);
  }
  if (own.size() == kLaneCount) {
    WallLoop loop;
    Pool pool(1 << 16);
    RegionTable regions(pool);
    regions.create(RegionId(0), 4096);
    const RegionPlace place = regions.expose(RegionId(0));
    RemoteRegions remote;
    remote.set(place);
    Heard owner;
    tcp::TcpConnection connection(loop, owner, {&regions, &remote}, {}, own);
    Operation read;
    read.id = 5;
    read.op = TransferOp::read;
    read.lane = Lane::on_demand;
    read.fragments = {{RegionId(0), 0, 64}};
    read.bytes = 64;
    connection.post(read);
    const std::size_t lane = sent.empty() ? 0 : std::to_integer<std::size_t>(sent[16]) % kLaneCount;
    (void)::send(theirs[lane], sent.data(), sent.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    ::shutdown(theirs[lane], SHUT_WR);
    connection.on_ready(own[lane], EPOLLIN);
  }
  for (const int fd : theirs) ::close(fd);
}

void rdma_offer(Bytes8 bytes) {
  std::string error;
  const auto read = parse_offer(bytes, error);
  KVLANE_CHECK(read.has_value() == error.empty(), "an offer and '{}'", error);
  if (!read) return;
  KVLANE_CHECK(std::ranges::equal(encode_offer(*read), bytes), "an offer changed");
  (void)agree(*read, RdmaOffer{});
}

// As the link reads it: nothing lies outside of the slot, and the pieces are those of the list.
void rdma_record(Bytes8 bytes) {
  std::string error;
  const auto read = parse_record(bytes, error);
  KVLANE_CHECK(read.has_value() == error.empty(), "a record and '{}'", error);
  if (!read) return;
  const auto inside = [&](Bytes8 part) {
    return part.empty() || (part.data() >= bytes.data() &&
                            part.data() + part.size() <= bytes.data() + bytes.size());
  };
  KVLANE_CHECK(inside(read->message) && inside(read->payload), "a record outside of its slot");
  std::int64_t sum = 0;
  for (const EpochFragment& piece : read->pieces) sum += piece.fragment.length;
  KVLANE_CHECK(read->pieces.empty() || sum == read->header.piece_bytes, "{} of {} bytes", sum,
               read->header.piece_bytes);
  OwnedMessage message;
  (void)decode_message(read->message, message);
}

void rdma_acks(Bytes8 bytes) {
  const auto read = parse_acks(bytes);
  if (!read) return;
  std::vector<std::byte> again(bytes.size());
  KVLANE_CHECK(encode_acks(*read, again) == bytes.size() && std::ranges::equal(again, bytes),
               "{} acks changed", read->size());
}

void session_of_listener(Bytes8 bytes) { session(bytes, true); }
void session_of_dialler(Bytes8 bytes) { session(bytes, false); }

using ReadBytes = void (*)(Bytes8);
constexpr ReadBytes kReaders[] = {data_frame,
                                  message,
                                  fragments,
                                  acks,
                                  config,
                                  places,
                                  start,
                                  prepare,
                                  records,
                                  hello,
                                  address,
                                  session_of_listener,
                                  session_of_dialler,
                                  stream,
                                  rdma_offer,
                                  rdma_record,
                                  rdma_acks};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t pick = (data[0] - std::size_t{'a'}) % std::size(kReaders);
  kReaders[pick](std::as_bytes(std::span(data, size)).subspan(1));
  return 0;
}
