#include "tests/support/socket_transport.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "sim/base/check.h"

namespace kvlane::test {
namespace {

// What goes over the wire before the payload. The message's runs and the fragments follow it.
struct Header {
  std::uint64_t id = 0;
  std::int64_t bytes = 0;
  std::uint64_t cookie = 0;
  std::int64_t rows = 0;
  std::uint32_t runs = 0, fragments = 0;
  std::uint32_t message_request = 0, message_layer = 0;
  std::int32_t iteration = 0;
  TransferOp op = TransferOp::write;
  MessageKind kind = MessageKind::blocks_arrived;
};

template <class T>
void append(std::vector<unsigned char>& out, const T* values, std::size_t count) {
  const auto* begin = reinterpret_cast<const unsigned char*>(values);
  out.insert(out.end(), begin, begin + count * sizeof(T));
}

}  // namespace

// A direction of work: posts go out at socket[0], are carried out at socket[1], and answered there
// (an acknowledgement, or the data of a read).
struct SocketTransport::Queue {
  struct Posted {
    std::uint64_t id = 0;
    TransferSpec spec;
    Callback completion;
    TimePoint begin;
  };
  EndpointId poster, peer;
  std::array<int, 2> socket{-1, -1};
  std::array<std::vector<unsigned char>, 2> outgoing;
  std::array<std::size_t, 2> written{0, 0};
  std::array<std::vector<unsigned char>, 2> incoming;
  std::deque<Posted> posted;  // not completed, in order

  Queue() = default;
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;
  ~Queue() {
    for (const int fd : socket) {
      if (fd >= 0) ::close(fd);
    }
  }

  // Writes and reads until the sockets would block.
  void move() {
    for (const std::size_t side : {0U, 1U}) {
      std::vector<unsigned char>& out = outgoing[side];
      while (written[side] < out.size()) {
        const ssize_t n =
            ::write(socket[side], out.data() + written[side], out.size() - written[side]);
        if (n < 0) {
          KVLANE_CHECK(errno == EAGAIN || errno == EINTR, "write: {}", std::strerror(errno));
          break;
        }
        written[side] += static_cast<std::size_t>(n);
      }
      if (written[side] == out.size()) {
        out.clear();
        written[side] = 0;
      }
      std::array<unsigned char, 65536> buffer;
      for (;;) {
        const ssize_t n = ::read(socket[side], buffer.data(), buffer.size());
        if (n <= 0) break;
        incoming[side].insert(incoming[side].end(), buffer.data(), buffer.data() + n);
      }
    }
  }
};

SocketTransport::SocketTransport(WallLoop& loop, std::size_t endpoints, TraceSink& trace)
    : loop_(loop), trace_(trace), handlers_(endpoints, nullptr) {
  loop.add(*this);
}

SocketTransport::~SocketTransport() = default;

void SocketTransport::register_region(EndpointId owner, RegionId region, Bytes bytes) {
  const auto size = static_cast<std::size_t>(bytes.count());
  for (std::size_t e = 0; e < handlers_.size(); ++e) {
    memory(EndpointId(e), region).assign(size, 0);
    landed_[{EndpointId(e), region}].assign(size, false);
  }
  auto& full = memory(owner, region);
  for (std::size_t i = 0; i < size; ++i) {
    full[i] = pattern(region.value(), static_cast<std::int64_t>(i));
  }
}

std::vector<unsigned char>& SocketTransport::memory(EndpointId endpoint, RegionId region) {
  return memory_[{endpoint, region}];
}

Bytes SocketTransport::arrived(EndpointId endpoint, RegionId region) const {
  std::int64_t count = 0;
  for (const bool here : landed_.at({endpoint, region})) count += here ? 1 : 0;
  return Bytes(count);
}

void SocketTransport::set_handler(EndpointId endpoint, MessageHandler* handler) {
  handlers_[endpoint.index()] = handler;
}

SocketTransport::Queue& SocketTransport::queue(const TransferSpec& spec) {
  auto& made =
      queues_[{spec.poster, spec.peer, spec.lane, spec.queue, spec.op == TransferOp::read}];
  if (!made) {
    made = std::make_unique<Queue>();
    made->poster = spec.poster;
    made->peer = spec.peer;
    KVLANE_CHECK(::socketpair(AF_UNIX, SOCK_STREAM, 0, made->socket.data()) == 0, "socketpair: {}",
                 std::strerror(errno));
    for (const int fd : made->socket) ::fcntl(fd, F_SETFL, O_NONBLOCK);
  }
  return *made;
}

TransferId SocketTransport::post(const TransferSpec& spec, Callback completion) {
  std::int64_t placed = 0;
  for (const Fragment& f : spec.fragments) placed += f.length;
  KVLANE_CHECK(spec.fragments.empty() || placed == spec.bytes.count(),
               "{} bytes in fragments of {}", spec.bytes.count(), placed);
  Queue& q = queue(spec);
  Header header;
  header.id = ++posted_;
  header.bytes = spec.bytes.count();
  header.cookie = spec.message.cookie;
  header.rows = spec.message.rows;
  header.runs = static_cast<std::uint32_t>(spec.message.runs.size());
  header.fragments = static_cast<std::uint32_t>(spec.fragments.size());
  header.message_request = spec.message.request.value();
  header.message_layer = spec.message.layer.value();
  header.iteration = spec.message.iteration;
  header.op = spec.op;
  header.kind = spec.message.kind;
  std::vector<unsigned char>& out = q.outgoing[0];
  append(out, &header, 1);
  append(out, spec.message.runs.data(), spec.message.runs.size());
  append(out, spec.fragments.data(), spec.fragments.size());
  if (spec.op != TransferOp::read) {
    for (const Fragment& f : spec.fragments) {
      const auto& bytes = memory(spec.poster, f.region);
      KVLANE_CHECK(f.offset >= 0 && f.offset + f.length <= std::ssize(bytes),
                   "a fragment outside its region");
      append(out, bytes.data() + f.offset, static_cast<std::size_t>(f.length));
    }
    if (spec.fragments.empty()) {
      for (std::int64_t i = 0; i < header.bytes; ++i) out.push_back(pattern(header.id, i));
    }
    sent_ += spec.bytes;
  }
  q.posted.push_back({header.id, spec, completion, loop_.now()});
  q.posted.back().spec.fragments = {};
  q.posted.back().spec.message.runs = {};
  ++in_flight_;
  return {header.id};
}

void SocketTransport::watch(std::vector<pollfd>& fds) const {
  for (const auto& [key, q] : queues_) {
    for (const std::size_t side : {0U, 1U}) {
      const short out = q->outgoing[side].empty() ? short{0} : short{POLLOUT};
      fds.push_back({q->socket[side], static_cast<short>(POLLIN | out), 0});
    }
  }
}

void SocketTransport::service() {
  // A handler may post, and so add queues; those are served the next time.
  std::vector<Queue*> all;
  for (auto& [key, q] : queues_) all.push_back(q.get());
  for (Queue* q : all) {
    if (q->posted.empty()) continue;
    q->move();
    finish_received(*q);
  }
}

void SocketTransport::finish_received(Queue& q) {
  // At the peer: whole transfers.
  for (std::vector<unsigned char>& in = q.incoming[1];;) {
    Header header;
    if (in.size() < sizeof(header)) break;
    std::memcpy(&header, in.data(), sizeof(header));
    const std::size_t payload =
        header.op == TransferOp::read ? 0 : static_cast<std::size_t>(header.bytes);
    const std::size_t runs_at = sizeof(header);
    const std::size_t fragments_at = runs_at + header.runs * sizeof(BlockRun);
    const std::size_t data_at = fragments_at + header.fragments * sizeof(Fragment);
    if (in.size() < data_at + payload) break;
    std::vector<BlockRun> runs(header.runs);
    if (!runs.empty()) std::memcpy(runs.data(), in.data() + runs_at, fragments_at - runs_at);
    std::vector<Fragment> fragments(header.fragments);
    if (!fragments.empty()) {
      std::memcpy(fragments.data(), in.data() + fragments_at, data_at - fragments_at);
    }
    std::size_t at = data_at;
    for (const Fragment& f : fragments) {
      auto& here = memory(q.peer, f.region);
      auto& landed = landed_[{q.peer, f.region}];
      for (std::int64_t i = f.offset; i < f.offset + f.length; ++i) {
        const auto place = static_cast<std::size_t>(i);
        here[place] = in[at++];
        landed[place] = true;
        if (here[place] != pattern(f.region.value(), i)) ++wrong_;
      }
    }
    if (fragments.empty()) {
      for (std::size_t i = 0; i < payload; ++i) {
        if (in[at++] != pattern(header.id, static_cast<std::int64_t>(i))) ++wrong_;
      }
    }
    received_ += Bytes(static_cast<std::int64_t>(payload));
    in.erase(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(data_at + payload));

    std::vector<unsigned char>& answer = q.outgoing[1];
    append(answer, &header.id, 1);
    if (header.op == TransferOp::read) {
      for (std::int64_t i = 0; i < header.bytes; ++i) answer.push_back(pattern(header.id, i));
      sent_ += Bytes(header.bytes);
    }
    if (header.op == TransferOp::send || header.op == TransferOp::write_with_imm) {
      Message message;
      message.kind = header.kind;
      message.request = RequestId(header.message_request);
      message.layer = LayerId(header.message_layer);
      message.iteration = header.iteration;
      message.rows = header.rows;
      message.cookie = header.cookie;
      message.runs = runs;
      KVLANE_CHECK(handlers_[q.peer.index()] != nullptr, "nobody listens at {}", q.peer.value());
      handlers_[q.peer.index()]->on_message(q.poster, message);
    }
  }
  // At the poster: answers, in the order of the posts.
  for (std::vector<unsigned char>& in = q.incoming[0];;) {
    std::uint64_t id = 0;
    if (in.size() < sizeof(id)) break;
    std::memcpy(&id, in.data(), sizeof(id));
    KVLANE_CHECK(!q.posted.empty() && q.posted.front().id == id, "an answer out of order");
    const Queue::Posted done = q.posted.front();
    const std::size_t payload =
        done.spec.op == TransferOp::read ? static_cast<std::size_t>(done.spec.bytes.count()) : 0;
    if (in.size() < sizeof(id) + payload) break;
    for (std::size_t i = 0; i < payload; ++i) {
      if (in[sizeof(id) + i] != pattern(id, static_cast<std::int64_t>(i))) ++wrong_;
    }
    received_ += Bytes(static_cast<std::int64_t>(payload));
    in.erase(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(sizeof(id) + payload));
    q.posted.pop_front();
    --in_flight_;
    ++completed_;
    TraceRecord r;
    r.kind = TraceKind::transfer;
    r.lane = done.spec.lane;
    r.detail = static_cast<std::uint8_t>(done.spec.op);
    r.begin = done.begin;
    r.end = loop_.now();
    r.request = done.spec.request;
    r.metadata = done.spec.metadata;
    const bool read = done.spec.op == TransferOp::read;
    r.source = read ? q.peer : q.poster;
    r.destination = read ? q.poster : q.peer;
    r.bytes = done.spec.bytes;
    r.flow = id;
    trace_.record(r);
    // From the loop, never from inside post().
    if (done.completion) {
      Callback completion = done.completion;
      completion.argument = static_cast<std::uint64_t>(TransferStatus::ok);
      loop_.schedule_at(loop_.now(), completion);
    }
  }
}

}  // namespace kvlane::test
