// Writes tests/fuzz/corpus/live anew from what the live world itself sends:
//   make_live_corpus tests/fuzz/corpus/live

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "calibrate/live/rdma/offer.h"
#include "calibrate/live/rdma/record.h"
#include "calibrate/live/role/records.h"
#include "calibrate/live/role/run_frames.h"
#include "calibrate/live/session/handshake.h"
#include "calibrate/live/socket/listener.h"
#include "calibrate/live/wire/frame.h"
#include "calibrate/live/wire/message.h"

namespace {

using namespace kvlane;        // NOLINT(google-build-using-namespace): a program of one file
using namespace kvlane::live;  // NOLINT(google-build-using-namespace)

struct Corpus {
  std::filesystem::path folder;
  void put(char reader, const std::string& name, std::span<const std::byte> bytes) const {
    std::ofstream file(folder / name, std::ios::binary);
    file << reader;
    file.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }
  void put(char reader, const std::string& name, const std::string& text) const {
    put(reader, name, std::as_bytes(std::span(text)));
  }
};

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string frame(FrameKind kind, const std::string& body) {
  std::vector<std::byte> head;
  Writer out(head);
  out.put(static_cast<std::uint32_t>(body.size()));
  out.put(kind);
  return text_of(head) + "kvl" + body;
}

std::string hello_of(std::uint32_t protocol) {
  std::vector<std::byte> body;
  Writer out(body);
  out.put(protocol);
  out.put_text("1.0");
  out.put_bytes(std::vector<std::byte>(32, std::byte{5}));
  out.put(std::uint8_t{1});
  return frame(FrameKind::hello, text_of(body));
}

void wire(const Corpus& corpus) {
  std::vector<EpochFragment> pieces;
  for (std::uint32_t i = 0; i < 8; ++i) {
    pieces.push_back({{RegionId(1), std::int64_t{512} * (3 * i), 512}, 2});
  }
  pieces.push_back({{RegionId(2), 77, 100}, 1});
  const std::int64_t bytes = 8 * 512 + 100;
  std::vector<std::byte> body, with_size, framed;
  Writer(with_size).put(bytes);
  Writer out(body);
  encode_fragments(pieces, out);
  with_size.insert(with_size.end(), body.begin(), body.end());
  corpus.put('c', "fragments", with_size);

  OwnedMessage owned;
  owned.runs = {{3, 0, 16}, {4, 8, 1}};
  owned.groups = {{RequestId(1), 4}};
  owned.index = {1, 5, 9};
  owned.message.request = RequestId(1);
  owned.message.layer = LayerId(3);
  owned.message.runs = owned.runs;
  owned.message.groups = owned.groups;
  owned.message.index = owned.index;
  const std::vector<std::byte> message = encode_message(owned.message);
  corpus.put('b', "message", message);
  corpus.put('b', "message_filled", encode_message(owned.message, 400));
  body.insert(body.end(), message.begin(), message.end());
  FrameHead head;
  head.id = 9;
  head.payload = bytes;
  encode_frame(head, body, framed);
  corpus.put('a', "frame", framed);
  std::vector<std::byte> acks;
  encode_acks(std::vector<Ack>{{9, TransferStatus::ok, 1234567}, {10, TransferStatus::failed, 0}},
              acks);
  corpus.put('d', "acks", acks);
}

void run_frames(const Corpus& corpus) {
  corpus.put('e', "config", encode_config({{"model", "llama"}, {"block_tokens", "16"}}));
  const std::vector<RegionPlace> places = {{RegionId(0), 1, 4096, 8192}, {RegionId(1), 1, 0, 512}};
  corpus.put('f', "places", encode_places(places));
  StartFrame start;
  start.zero_ns = 1'000'000'000;
  start.places = places;
  corpus.put('g', "start", encode_start(start));
  corpus.put('h', "prepare", encode_prepare(RunNumber{1, 0, 3}));
  TraceRecord record;
  record.kind = TraceKind::transfer;
  record.request = RequestId(0);
  record.end = TimePoint(std::chrono::microseconds(5));
  record.source = EndpointId(1);
  record.destination = EndpointId(0);
  corpus.put('i', "records", encode_records({&record, 1}));
}

void session(const Corpus& corpus) {
  corpus.put('j', "socket", encode_hello({HelloKind::stream, 1, 2, {}}));
  corpus.put('k', "address_v4", "10.0.0.1:18515");
  corpus.put('k', "address_v6", "[::1]:18515");
  const std::string proof = frame(FrameKind::proof, std::string(32, 'p'));
  for (const char side : {'l', 'm'}) {
    const std::string who = side == 'l' ? "dialler" : "listener";
    corpus.put(side, "session_" + who, hello_of(kProtocol) + proof);
    corpus.put(side, "session_" + who + "_protocol", hello_of(kProtocol + 1));
    corpus.put(side, "session_" + who + "_ping",
               frame(FrameKind::ping, std::string(8, '\0')) + hello_of(kProtocol).substr(0, 20));
    std::vector<std::byte> reason;
    Writer(reason).put_text("no room");
    corpus.put(side, "session_" + who + "_refuse", frame(FrameKind::refuse, text_of(reason)));
    corpus.put(side, "session_" + who + "_length", std::string("\xff\xff\xff\x7f\0kvl", 8));
  }
}

// Of live_target.cpp's stream(): type, id, sizes of payload and body, body.
std::string part_of_stream(FrameType type, std::uint8_t id, std::uint16_t payload,
                           std::span<const std::byte> body) {
  std::vector<std::byte> bytes;
  Writer out(bytes);
  out.put(type);
  out.put(id);
  out.put(payload);
  out.put(static_cast<std::uint16_t>(body.size()));
  out.put_bytes(body);
  return text_of(bytes);
}

void stream(const Corpus& corpus) {
  const auto pieces = [](std::int64_t first, std::int64_t second, bool sized) {
    std::vector<std::byte> body;
    Writer out(body);
    encode_fragments(
        std::vector<EpochFragment>{{{RegionId(0), 0, first}, 1}, {{RegionId(0), 512, second}, 1}},
        out);
    if (sized) out.put(first + second);
    return body;
  };
  corpus.put('n', "stream_data",
             part_of_stream(FrameType::data, 1, 300, pieces(100, 200, false)) +
                 part_of_stream(FrameType::data, 2, 20, pieces(0, 20, false)));
  corpus.put('n', "stream_read",
             part_of_stream(FrameType::read_request, 3, 0, pieces(100, 200, true)) +
                 part_of_stream(FrameType::read_request, 4, 0, pieces(0, 0, true)));
  std::vector<std::byte> acks;
  encode_acks(std::vector<Ack>{{5, TransferStatus::ok, 7}}, acks);
  corpus.put('n', "stream_reply",
             part_of_stream(FrameType::read_reply, 5, 64, {}) +
                 part_of_stream(FrameType::acks, 6, 0, acks));
}

void rdma(const Corpus& corpus) {
  RdmaOffer offer;
  offer.gid[15] = 1;
  offer.mtu_code = 3;
  offer.read_depth = 16;
  offer.receives = 512;
  offer.queues = 1;
  offer.pool = {1 << 20U, 1 << 20U, 7};
  offer.inbox = {1 << 24U, 1 << 16U, 8};
  for (std::uint32_t i = 0; i < queue_pair_count(1); ++i) offer.queue_pairs.push_back({i + 17, i});
  corpus.put('o', "rdma_offer", encode_offer(offer));
  const auto slot = [](RecordHeader header, std::span<const std::byte> message,
                       std::int64_t payload) {
    std::vector<std::byte> list, bytes(kRecordHeaderBytes);
    Writer out(list);
    encode_fragments(
        std::vector<EpochFragment>{{{RegionId(0), 0, 100}, 1}, {{RegionId(0), 512, 28}, 1}}, out);
    header.operation = 9;
    header.has_message = !message.empty();
    header.message_bytes = static_cast<std::uint32_t>(message.size());
    header.list_bytes = static_cast<std::uint32_t>(list.size());
    header.piece_bytes = 128;
    encode_record_header(header, bytes);
    bytes.insert(bytes.end(), message.begin(), message.end());
    bytes.insert(bytes.end(), list.begin(), list.end());
    bytes.resize(bytes.size() + static_cast<std::size_t>(payload));
    return bytes;
  };
  OwnedMessage owned;
  owned.message.request = RequestId(1);
  const std::vector<std::byte> message = encode_message(owned.message);
  RecordHeader header;
  corpus.put('p', "rdma_placed", slot(header, message, 0));
  header.kind = RecordKind::packed;
  corpus.put('p', "rdma_packed", slot(header, message, 128));
  header.kind = RecordKind::read_request;
  corpus.put('p', "rdma_read", slot(header, {}, 0));
  std::vector<std::byte> acks(2 * kAckBytes);
  const std::vector<SlotAck> told = {{4, AckStatus::applied, 1234567}, {5, AckStatus::refused, 0}};
  encode_acks(told, acks);
  corpus.put('q', "rdma_acks", acks);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: make_live_corpus FOLDER\n", stderr);
    return 2;
  }
  const Corpus corpus{argv[1]};
  std::filesystem::create_directories(corpus.folder);
  wire(corpus);
  run_frames(corpus);
  session(corpus);
  stream(corpus);
  rdma(corpus);
}
