#include "calibrate/live/rdma/link.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <system_error>

#include "sim/base/check.h"

namespace kvlane::live {
namespace {

constexpr std::size_t kReceiveBytes = kAckBytes * kAcksTogether;
constexpr std::size_t kReceiveStride = 256;
constexpr int kAckBuffers = 64;
constexpr std::uint32_t kGreetings = 4;  // receives beside those of records and acks
constexpr int kPolledTogether = 32;
constexpr int kPollsATurn = 8;
constexpr int kMostSge = 30;
constexpr std::uint64_t kHugePage = std::uint64_t{2} << 20U;

std::string error_text(const char* what) {
  return fmt::format("{}: {}", what, std::generic_category().message(errno));
}

}  // namespace

Link::Link(const LinkShared& shared, ConnectionOwner& owner, const ConnectionMemory& memory,
           const ConnectionOptions& options, bool passive, Callback ready)
    : shared_(shared),
      owner_(owner),
      memory_(memory),
      options_(options),
      passive_(passive),
      ready_(ready),
      connection_(std::random_device{}()) {
  Device& device = *shared_.device;
  const ibv_device_attr& limits = device.limits();
  const std::size_t pairs = queue_pair_count(options.queues);
  const std::uint32_t receives = shared_.options.receives + kGreetings;
  const auto most_entries = static_cast<std::uint32_t>(limits.max_cqe);
  // The CQ holds whatever can complete at a time, errors of unsignaled requests included.
  const auto wanted = std::min(
      {shared_.options.send_depth, static_cast<std::uint32_t>(limits.max_qp_wr),
       most_entries > receives ? (most_entries - receives) / static_cast<std::uint32_t>(pairs)
                               : 0U});
  if (wanted < 8 || receives > static_cast<std::uint32_t>(limits.max_srq_wr)) {
    throw RdmaError(fmt::format(
        "RDMA device {} has completion queues of {} entries and {} shared receives; expected more "
        "for {} queue pairs and {} receives",
        device.name(), limits.max_cqe, limits.max_srq_wr, pairs, receives));
  }

  inbox_bytes_ = shared_.options.inbox_bytes;
  const std::size_t bytes =
      2 * inbox_bytes_ + receives * kReceiveStride + kAckBuffers * kReceiveStride;
  const std::size_t mapped = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  void* memory_at =
      ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory_at == MAP_FAILED) throw RdmaError(error_text("no memory for an inbox"));
  control_ = {static_cast<std::byte*>(memory_at), Unmap{mapped}};
  inbox_ = control_.get();
  outbox_ = inbox_ + inbox_bytes_;
  receives_ = outbox_ + inbox_bytes_;
  ack_buffers_ = receives_ + receives * kReceiveStride;
  control_region_ = device.register_memory(control_.get(), mapped,
                                           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
                                           "a connection's inbox and outbox");

  channel_.reset(ibv_create_comp_channel(device.context()));
  if (!channel_) throw RdmaError(error_text("no completion channel"));
  ::fcntl(channel_->fd, F_SETFL, ::fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
  const auto entries = static_cast<int>(receives + wanted * static_cast<std::uint32_t>(pairs));
  cq_.reset(ibv_create_cq(device.context(), entries, nullptr, channel_.get(), 0));
  if (!cq_) throw RdmaError(error_text("no completion queue"));
  ibv_srq_init_attr srq{};
  srq.attr.max_wr = receives;
  srq.attr.max_sge = 1;
  srq_.reset(ibv_create_srq(device.domain(), &srq));
  if (!srq_) throw RdmaError(error_text("no shared receive queue"));

  const int max_sge = std::min(limits.max_sge, kMostSge);
  const int max_read_sge = limits.max_sge_rd > 0 ? std::min(limits.max_sge_rd, max_sge) : max_sge;
  queues_ = std::vector<LaneQueue>(static_cast<std::size_t>(kLaneCount) * options.queues);
  for (std::size_t i = 0; i < pairs; ++i) {
    QueuePairSetup setup;
    setup.cq = cq_.get();
    setup.srq = srq_.get();
    setup.depth = wanted;
    setup.index = static_cast<std::uint32_t>(i);
    const bool read = i >= queues_.size();
    const std::size_t lane = i + 1 == pairs ? 0 : read ? i - queues_.size() : i / options.queues;
    setup.max_sge = read ? max_read_sge : max_sge;
    setup.service_level = shared_.options.service_level[lane];
    setup.traffic_class = shared_.options.traffic_class[lane];
    setup.receiver_retries = shared_.options.receiver_retries;
    pairs_.push_back(std::make_unique<QueuePair>(device, setup));
    by_number_[pairs_.back()->offer().number] = pairs_.back().get();
    if (!read) {
      queues_[i].lane = static_cast<Lane>(lane);
      queues_[i].queue = static_cast<std::uint32_t>(i % options.queues);
      queues_[i].pair = pairs_.back().get();
    }
  }
  greeter_ = pairs_.back().get();
  for (int i = 0; i < kAckBuffers; ++i) free_ack_buffers_.push_back(i);
  for (std::uint64_t i = 0; i < receives; ++i) emptied_.push_back(i);
  post_receives();
  if (!error_.empty()) throw RdmaError(error_);
  if (ibv_req_notify_cq(cq_.get(), 0) != 0) throw RdmaError(error_text("no notification"));
  device.add(*this);
  shared_.loop->watch(channel_->fd, EPOLLIN, *this);
  shared_.loop->add(*this);
}

RdmaOffer Link::describe() const {
  const Device& device = *shared_.device;
  RdmaOffer o;
  o.process_epoch = shared_.process_epoch;
  o.connection = connection_;
  o.ethernet = device.ethernet();
  o.checksum = options_.checksum;
  o.gid = device.gid().gid;
  o.lid = device.port().lid;
  o.mtu_code = static_cast<std::uint8_t>(device.port().active_mtu);
  o.read_depth = static_cast<std::uint8_t>(std::clamp(device.limits().max_qp_rd_atom, 0, 255));
  o.receives = shared_.options.receives;
  o.queues = options_.queues;
  o.pool = {reinterpret_cast<std::uint64_t>(shared_.pool->addr), shared_.pool->length,
            shared_.pool->rkey};
  o.inbox = {reinterpret_cast<std::uint64_t>(inbox_), inbox_bytes_, control_region_->rkey};
  for (const auto& pair : pairs_) o.queue_pairs.push_back(pair->offer());
  return o;
}

std::vector<std::byte> Link::offer() const { return encode_offer(describe()); }

void Link::connect(std::span<const std::byte> from_peer) {
  KVLANE_CHECK(state_ == State::made, "connected twice");
  state_ = State::greeting;
  std::string why;
  auto theirs = parse_offer(from_peer, why);
  if (theirs) why = agree(describe(), *theirs);
  if (!why.empty()) return greeting_failed(why);
  theirs_ = std::move(*theirs);
  const std::uint64_t inbox = std::min(inbox_bytes_, theirs_.inbox.bytes);
  ring_ = Ring(inbox);
  record_bytes_ = inbox / 8;
  message_bytes_ = inbox / 2;
  credits_ = credits_in_all_ = theirs_.receives / 2;
  // The greeting's own queue pair last: whoever hears it knows that the others are ready.
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    why = pairs_[i]->connect(theirs_, theirs_.queue_pairs[i]);
    if (!why.empty()) return greeting_failed(why);
  }
  greeting_timer_ = shared_.loop->schedule_after(
      shared_.options.connect_timeout,
      {[](void* self, std::uint64_t) {
         auto* link = static_cast<Link*>(self);
         link->greeting_timer_ = {};
         link->greeting_failed(fmt::format("the peer's RDMA device was not heard within {:.1f} s",
                                           to_seconds(link->shared_.options.connect_timeout)));
       },
       this, 0});
  if (!passive_) greet();
}

// The active end speaks first, with the peer's number; the passive end answers.
void Link::greet() {
  WorkRequest hello;
  hello.opcode = IBV_WR_SEND_WITH_IMM;
  hello.immediate = theirs_.connection;
  greeter_->add(hello);
  greeter_->signal(nullptr);
  if (const std::string why = greeter_->flush(); !why.empty()) greeting_failed(why);
}

void Link::greeting_failed(const std::string& reason) {
  if (state_ != State::greeting) return;
  error_ = "RDMA: " + reason;
  state_ = State::lost;
  if (greeting_timer_) shared_.loop->cancel(greeting_timer_);
  greeting_timer_ = {};
  shut_all();
  if (!ready_timer_) ready_timer_ = shared_.loop->schedule_at(shared_.loop->now(), ready_);
}

void Link::handle_greeting(const ibv_wc& completion) {
  const bool receive = (completion.wr_id & kReceiveId) != 0;
  if (completion.status != IBV_WC_SUCCESS) {
    // Nobody was there yet: the peer has not connected its end.
    if (!receive && completion.status == IBV_WC_RETRY_EXC_ERR && !passive_) {
      const std::string why = greeter_->connect_again(theirs_, theirs_.queue_pairs.back());
      if (why.empty()) return greet();
      return greeting_failed(why);
    }
    if (completion.status != IBV_WC_WR_FLUSH_ERR) {
      greeting_failed(std::string(status_text(completion.status)));
    }
    return;
  }
  if (!receive) {
    greeter_->retire(static_cast<std::uint32_t>(completion.wr_id));
    return;
  }
  emptied_.push_back(completion.wr_id & ~kReceiveId);
  if (ready_timer_) return;  // heard twice
  if (ntohl(completion.imm_data) != connection_) {
    return greeting_failed(fmt::format("a greeting for connection {:#x}; expected {:#x}",
                                       ntohl(completion.imm_data), connection_));
  }
  if (passive_) greet();
  if (state_ != State::greeting) return;
  shared_.loop->cancel(greeting_timer_);
  greeting_timer_ = {};
  ready_timer_ =
      shared_.loop->schedule_at(shared_.loop->now(), {[](void* self, std::uint64_t) {
                                                        auto* link = static_cast<Link*>(self);
                                                        const auto alive = link->shared_from_this();
                                                        link->ready_timer_ = {};
                                                        if (link->state_ == State::greeting)
                                                          link->state_ = State::ready;
                                                        link->ready_();
                                                      },
                                                      this, 0});
}

void Link::start() {
  KVLANE_CHECK(state_ == State::ready, "taken before it was ready");
  state_ = State::running;
  // The owner has not seen its connection yet: told from the loop.
  schedule_pump();
}

void Link::post_receives() {
  if (emptied_.empty()) return;
  std::vector<ibv_recv_wr> requests(emptied_.size());
  std::vector<ibv_sge> buffers(emptied_.size());
  for (std::size_t i = 0; i < emptied_.size(); ++i) {
    buffers[i].addr = reinterpret_cast<std::uint64_t>(receives_ + emptied_[i] * kReceiveStride);
    buffers[i].length = kReceiveBytes;
    buffers[i].lkey = control_region_->lkey;
    requests[i].wr_id = kReceiveId | emptied_[i];
    requests[i].sg_list = &buffers[i];
    requests[i].num_sge = 1;
    requests[i].next = i + 1 < requests.size() ? &requests[i + 1] : nullptr;
  }
  emptied_.clear();
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_srq_recv(srq_.get(), requests.data(), &bad);
  if (error == 0) return;
  error_ = fmt::format("RDMA: ibv_post_srq_recv: {}", std::generic_category().message(error));
  lose(error_);
}

void Link::on_ready(int, std::uint32_t) {
  const auto self = shared_from_this();
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  while (ibv_get_cq_event(channel_.get(), &cq, &context) == 0) ++events_;
  // Armed before the queue is emptied, or what comes in between stays unseen.
  ibv_req_notify_cq(cq_.get(), 0);
  drain();
}

// Background work too: while the loop spins, completions are seen without a system call.
bool Link::drain() {
  if (state_ == State::lost || state_ == State::closed || state_ == State::ready) return false;
  const auto self = shared_from_this();
  std::array<ibv_wc, kPolledTogether> completions;
  bool worked = !early_.empty() && state_ == State::running;
  for (int polls = 0; polls < kPollsATurn; ++polls) {
    if (state_ == State::running && !early_.empty()) {
      for (const ibv_wc& completion : std::exchange(early_, {})) {
        if (!over()) handle(completion);
      }
    }
    if (over()) return true;
    const int n = ibv_poll_cq(cq_.get(), kPolledTogether, completions.data());
    if (n < 0) {
      lose("ibv_poll_cq failed");
      return true;
    }
    for (int i = 0; i < n && !over(); ++i) {
      const ibv_wc& completion = completions[static_cast<std::size_t>(i)];
      if (state_ == State::running) {
        handle(completion);
      } else if (state_ == State::greeting && pair_of(completion.qp_num) == greeter_) {
        handle_greeting(completion);
      } else {
        early_.push_back(completion);
      }
    }
    worked = worked || n > 0;
    if (n < kPolledTogether) break;
  }
  if (over()) return true;
  if (!flushed_.empty()) lose(flushed_);
  if (over() || !worked) return worked;
  // Receives before acks: an ack lets the peer use one.
  post_receives();
  if (state_ == State::running) pump();
  return true;
}

QueuePair* Link::pair_of(std::uint32_t number) {
  const auto found = by_number_.find(number);
  return found == by_number_.end() ? nullptr : found->second;
}

void Link::handle(const ibv_wc& completion) {
  if (completion.status != IBV_WC_SUCCESS) return handle_error(completion);
  if ((completion.wr_id & kReceiveId) == 0) {
    const auto index = static_cast<std::size_t>(completion.wr_id >> 32U);
    KVLANE_CHECK(index < pairs_.size(), "completion of queue pair {}", index);
    const Sent sent = pairs_[index]->retire(static_cast<std::uint32_t>(completion.wr_id));
    const Lane lane = index < queues_.size()       ? queues_[index].lane
                      : index + 1 == pairs_.size() ? Lane::control
                                                   : static_cast<Lane>(index - queues_.size());
    retired(sent, lane);
    return;
  }
  const std::uint64_t buffer = completion.wr_id & ~kReceiveId;
  emptied_.push_back(buffer);
  QueuePair* pair = pair_of(completion.qp_num);
  if (pair == greeter_) return;  // a greeting that was sent twice
  if (pair == nullptr || pair->index() >= queues_.size()) {
    return lose("the peer sent a message where only data is expected");
  }
  LaneQueue& queue = queues_[pair->index()];
  if (completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
    receive_record(queue, ntohl(completion.imm_data));
  } else {
    const std::size_t bytes = std::min<std::size_t>(completion.byte_len, kReceiveBytes);
    receive_acks(queue, {receives_ + buffer * kReceiveStride, bytes});
  }
}

// Of a failed completion only status, number and vendor's code are valid. The first that is not a
// flush is the cause; flushes are remembered until the queue is empty.
void Link::handle_error(const ibv_wc& completion) {
  const auto reason =
      fmt::format("RDMA: {} (status {}, vendor code {:#x})", status_text(completion.status),
                  static_cast<int>(completion.status), completion.vendor_err);
  if (completion.status == IBV_WC_WR_FLUSH_ERR) {
    if (flushed_.empty()) flushed_ = reason;
    return;
  }
  lose(reason);
}

void Link::on_fault(std::uint32_t queue_pair, const ibv_cq* cq, const std::string& reason) {
  if (over() || (queue_pair != 0 && pair_of(queue_pair) == nullptr) ||
      (cq != nullptr && cq != cq_.get())) {
    return;
  }
  const auto self = shared_from_this();
  if (state_ == State::running) return lose(reason);
  greeting_failed(reason);
}

void Link::lose(const std::string& reason) {
  if (over()) return;
  if (state_ != State::running) return greeting_failed(reason);
  state_ = State::lost;
  if (pump_timer_) shared_.loop->cancel(pump_timer_);
  pump_timer_ = {};
  shut_all();
  owner_.lost(reason);
}

void Link::shut_all() {
  for (const auto& pair : pairs_) pair->shut();
}

// A WRITE of no bytes, answered by the peer's device: a process that was killed has none left.
void Link::keep_alive() {
  if (state_ != State::running || !greeter_->idle()) return;
  WorkRequest sign;
  sign.remote_address = theirs_.pool.address;
  sign.remote_key = theirs_.pool.key;
  greeter_->add(sign);
  greeter_->signal(nullptr);
  if (const std::string why = greeter_->flush(); !why.empty()) lose("RDMA: " + why);
}

void Link::close() {
  if (state_ == State::closed) return;
  state_ = State::closed;
  WallLoop& loop = *shared_.loop;
  for (TimerId* timer : {&pump_timer_, &greeting_timer_, &ready_timer_}) {
    if (*timer) loop.cancel(*timer);
    *timer = {};
  }
  if (channel_) loop.unwatch(channel_->fd);
  loop.remove(*this);
  shared_.device->remove(*this);
  shut_all();
  if (cq_) {
    // Flushed requests; ibv_destroy_qp returns once the device has let go of the queue pair.
    std::array<ibv_wc, kPolledTogether> flushed;
    while (ibv_poll_cq(cq_.get(), kPolledTogether, flushed.data()) > 0) {
    }
  }
  pairs_.clear();
  by_number_.clear();
  srq_.reset();
  if (cq_) {
    // The CQ is not destroyed while an event of it is open.
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    while (ibv_get_cq_event(channel_.get(), &cq, &context) == 0) ++events_;
    if (events_ > 0) ibv_ack_cq_events(cq_.get(), events_);
  }
  cq_.reset();
  channel_.reset();
  control_region_.reset();
}

TransportLimits Link::limits() const {
  TransportLimits l;
  if (pairs_.empty()) return l;
  l.max_send_sge = pairs_.front()->max_sge();
  l.max_recv_sge = 1;
  l.max_read_sge = pairs_[queues_.size()]->max_sge();
  l.max_inline = Bytes(pairs_.front()->max_inline());
  l.gpu_direct = false;  // the pool is host memory
  const auto& levels = shared_.options.service_level;
  l.lane_priority =
      std::adjacent_find(levels.begin(), levels.end(), std::equal_to<>()) == levels.end();
  return l;
}

}  // namespace kvlane::live
