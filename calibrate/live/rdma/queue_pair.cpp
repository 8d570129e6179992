#include "calibrate/live/rdma/queue_pair.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <random>
#include <system_error>

#include "calibrate/live/rdma/record.h"
#include "sim/base/check.h"

namespace kvlane::live {
namespace {

constexpr std::uint32_t kSignalEvery = 32;
constexpr std::uint32_t kWantedInline = kAckBytes * kAcksTogether;
// 4.096 us x 2^14 = 67 ms for an answer, 6 times more: a dead peer shows after 0.5 s. Not 7, which
// Soft-RoCE takes for "for ever".
constexpr std::uint8_t kTimeout = 14, kRetries = 6;
constexpr std::uint8_t kReceiverNotReadyTimer = 12;  // code of 0.64 ms
constexpr std::uint8_t kMostReads = 16;

std::string error_text(const char* what, int error) {
  return fmt::format("{}: {}", what, std::generic_category().message(error));
}

std::uint32_t random_psn() { return std::random_device{}() & 0xffffffU; }

}  // namespace

QueuePair::QueuePair(Device& device, const QueuePairSetup& setup)
    : index_(setup.index),
      first_psn_(random_psn()),
      device_(device),
      service_level_(setup.service_level),
      traffic_class_(setup.traffic_class),
      receiver_retries_(setup.receiver_retries) {
  ibv_qp_init_attr attributes{};
  // What the device grants is known only by asking; some refuse inline data altogether.
  for (const std::uint32_t wanted_inline : {kWantedInline, 0U}) {
    attributes = {};
    attributes.send_cq = attributes.recv_cq = setup.cq;
    attributes.srq = setup.srq;
    attributes.cap.max_send_wr = setup.depth;
    attributes.cap.max_send_sge = static_cast<std::uint32_t>(setup.max_sge);
    attributes.cap.max_inline_data = wanted_inline;
    attributes.qp_type = IBV_QPT_RC;
    pair_.reset(ibv_create_qp(device.domain(), &attributes));
    if (pair_) break;
  }
  if (!pair_) {
    throw RdmaError(fmt::format(
        "RDMA device {} gives no queue pair of {} work requests and {} SGEs: {}", device.name(),
        setup.depth, setup.max_sge, std::generic_category().message(errno)));
  }
  // Granted is what was asked for or more, but the CQ was sized for what was asked for.
  depth_ = std::min(setup.depth, attributes.cap.max_send_wr);
  max_sge_ = std::min(setup.max_sge, static_cast<int>(attributes.cap.max_send_sge));
  max_inline_ = attributes.cap.max_inline_data;
  if (const std::string error = to_init(); !error.empty()) throw RdmaError(error);
}

std::string QueuePair::to_init() {
  ibv_qp_attr init{};
  init.qp_state = IBV_QPS_INIT;
  init.pkey_index = 0;
  init.port_num = device_.port_number();
  init.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  const int error = ibv_modify_qp(
      pair_.get(), &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  return error == 0 ? "" : error_text("queue pair to INIT", error);
}

std::string QueuePair::connect(const RdmaOffer& theirs, const QueuePairOffer& pair) {
  ibv_qp_attr ready{};
  ready.qp_state = IBV_QPS_RTR;
  ready.path_mtu = static_cast<ibv_mtu>(
      std::min<int>(device_.port().active_mtu, static_cast<int>(theirs.mtu_code)));
  ready.dest_qp_num = pair.number;
  ready.rq_psn = pair.first_psn;
  ready.max_dest_rd_atomic =
      static_cast<std::uint8_t>(std::clamp<int>(device_.limits().max_qp_rd_atom, 0, kMostReads));
  ready.min_rnr_timer = kReceiverNotReadyTimer;
  ready.ah_attr.sl = service_level_;
  ready.ah_attr.port_num = device_.port_number();
  ready.ah_attr.dlid = theirs.lid;
  if (device_.ethernet()) {
    ready.ah_attr.is_global = 1;
    std::memcpy(ready.ah_attr.grh.dgid.raw, theirs.gid.data(), theirs.gid.size());
    ready.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(device_.gid().index);
    ready.ah_attr.grh.hop_limit = 64;
    ready.ah_attr.grh.traffic_class = traffic_class_;
  }
  int error = ibv_modify_qp(pair_.get(), &ready,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  if (error != 0) return error_text("queue pair to RTR (is there a route to the peer?)", error);
  ibv_qp_attr send{};
  send.qp_state = IBV_QPS_RTS;
  send.timeout = kTimeout;
  send.retry_cnt = kRetries;
  send.rnr_retry = receiver_retries_;
  send.sq_psn = first_psn_;
  send.max_rd_atomic = static_cast<std::uint8_t>(
      std::min<int>(std::clamp<int>(device_.limits().max_qp_init_rd_atom, 0, kMostReads),
                    static_cast<int>(theirs.read_depth)));
  error = ibv_modify_qp(pair_.get(), &send,
                        IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                            IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  return error == 0 ? "" : error_text("queue pair to RTS", error);
}

std::string QueuePair::connect_again(const RdmaOffer& theirs, const QueuePairOffer& pair) {
  ibv_qp_attr reset{};
  reset.qp_state = IBV_QPS_RESET;
  if (const int error = ibv_modify_qp(pair_.get(), &reset, IBV_QP_STATE); error != 0) {
    return error_text("queue pair to RESET", error);
  }
  sent_.clear();
  in_flight_ = unsignaled_ = 0;
  if (std::string error = to_init(); !error.empty()) return error;
  return connect(theirs, pair);
}

void QueuePair::shut() {
  ibv_qp_attr error{};
  error.qp_state = IBV_QPS_ERR;
  // It can only fail where the device is gone.
  ibv_modify_qp(pair_.get(), &error, IBV_QP_STATE);
}

void QueuePair::add(const WorkRequest& request) {
  KVLANE_CHECK(room() > 0 && request.pieces.size() <= static_cast<std::size_t>(max_sge_),
               "{} SGEs into a queue pair with room for {}", request.pieces.size(), room());
  if (unsignaled_ + 1 == kSignalEvery && !batch_.empty()) signal(nullptr);
  ibv_send_wr& wr = batch_.emplace_back();
  wr = {};
  wr.wr_id = std::uint64_t{index_} << 32U | sequence_;
  wr.opcode = request.opcode;
  wr.num_sge = static_cast<int>(request.pieces.size());
  wr.wr.rdma.remote_addr = request.remote_address;
  wr.wr.rdma.rkey = request.remote_key;
  wr.imm_data = htobe32(request.immediate);
  std::int64_t bytes = 0;
  for (const ibv_sge& piece : request.pieces) {
    batch_pieces_.push_back(piece);
    bytes += piece.length;
  }
  if (bytes > 0 && bytes <= max_inline_ && request.opcode != IBV_WR_RDMA_READ) {
    wr.send_flags = IBV_SEND_INLINE;
  }
  ++in_flight_;
  ++unsignaled_;
  unsignaled_bytes_ += bytes;
}

void QueuePair::signal(Task* task, int ack_buffer) {
  KVLANE_CHECK(!batch_.empty() && unsignaled_ > 0, "nothing to signal among {}", batch_.size());
  batch_.back().send_flags |= IBV_SEND_SIGNALED;
  sent_.push_back({sequence_++, unsignaled_, unsignaled_bytes_, task, ack_buffer});
  unsignaled_ = 0;
  unsignaled_bytes_ = 0;
}

std::string QueuePair::flush() {
  if (batch_.empty()) return {};
  // Whoever waits for room needs a completion to make some.
  if (unsignaled_ > 0) signal(nullptr);
  std::size_t piece = 0;
  for (std::size_t i = 0; i < batch_.size(); ++i) {
    batch_[i].sg_list = batch_pieces_.data() + piece;
    piece += static_cast<std::size_t>(batch_[i].num_sge);
    batch_[i].next = i + 1 < batch_.size() ? &batch_[i + 1] : nullptr;
  }
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(pair_.get(), batch_.data(), &bad);
  std::string text;
  if (error != 0) {
    text = fmt::format("{} ({} of {} work requests posted)", error_text("ibv_post_send", error),
                       bad - batch_.data(), batch_.size());
  }
  batch_.clear();
  batch_pieces_.clear();
  return text;
}

Sent QueuePair::retire(std::uint32_t sequence) {
  KVLANE_CHECK(!sent_.empty() && sent_.front().sequence == sequence,
               "work request {} completed, {} are open", sequence, sent_.size());
  const Sent sent = sent_.front();
  sent_.pop_front();
  in_flight_ -= sent.work_requests;
  return sent;
}

}  // namespace kvlane::live
