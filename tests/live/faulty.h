#pragma once
// A connection that misbehaves, by a seed: completions are dropped, delayed, reordered and doubled,
// the peer killed at a random point. It stands between a transport and a real connection, on any
// wire. Streams that are torn: tests/live/torn_relay.h.

#include <deque>
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "calibrate/live/transport/connection.h"

namespace kvlane::live::test {

struct FaultPlan {
  std::uint64_t seed = 1;
  double drop = 0, delay = 0, twice = 0;  // shares of completions
  Duration most_delay = std::chrono::milliseconds(2);
  std::int64_t kill_after = -1;  // completions until the connection is cut; never below 0
};

class FaultyConnection final : public Connection, public ConnectionOwner {
 public:
  FaultyConnection(WallLoop& loop, ConnectionOwner& owner, const FaultPlan& plan)
      : loop_(loop), owner_(owner), plan_(plan), random_(plan.seed) {}
  ~FaultyConnection() override {
    for (const auto& late : late_) {
      if (late->timer) loop_.cancel(late->timer);
    }
  }
  void set(std::unique_ptr<Connection> inner) { inner_ = std::move(inner); }

  void post(const Operation& operation) override {
    if (!killed_) inner_->post(operation);
  }
  bool cancel(std::uint64_t id) override { return !killed_ && inner_->cancel(id); }
  void close() override {
    if (inner_) inner_->close();
  }
  bool fenced() const override { return inner_->fenced(); }
  TransportLimits limits() const override { return inner_->limits(); }
  const ConnectionCounters& counters() const override { return inner_->counters(); }

  void completed(std::uint64_t id, TransferStatus status, TimePoint begin,
                 TimePoint applied) override {
    if (killed_) return;
    if (plan_.kill_after >= 0 && ++seen_ > plan_.kill_after) {
      killed_ = true;
      // From the loop: a connection is never closed from inside its own call.
      loop_.schedule_at(loop_.now(), {[](void* self, std::uint64_t) {
                                        auto& c = *static_cast<FaultyConnection*>(self);
                                        c.inner_->close();
                                        c.owner_.lost("killed by the test");
                                      },
                                      this, 0});
      return;
    }
    const double draw = uniform_(random_);
    if (draw < plan_.drop) {
      ++dropped;
      return;
    }
    if (draw < plan_.drop + plan_.delay) return later_on(id, status, begin, applied);
    owner_.completed(id, status, begin, applied);
    if (draw < plan_.drop + plan_.delay + plan_.twice) {
      ++doubled;
      owner_.completed(id, status, begin, applied);
    }
  }
  void arrived(Lane lane, std::uint32_t queue, std::span<const std::byte> message) override {
    if (!killed_) owner_.arrived(lane, queue, message);
  }
  void lost(const std::string& reason) override {
    if (!std::exchange(killed_, true)) owner_.lost(reason);
  }

  std::size_t dropped = 0, delayed = 0, doubled = 0;

 private:
  struct Late {
    FaultyConnection* connection;
    std::uint64_t id;
    TransferStatus status;
    TimePoint begin, applied;
    TimerId timer;
  };
  // Delays differ, so that later completions overtake.
  void later_on(std::uint64_t id, TransferStatus status, TimePoint begin, TimePoint applied) {
    ++delayed;
    late_.push_back(std::make_unique<Late>(Late{this, id, status, begin, applied, {}}));
    Late& late = *late_.back();
    const Duration by(static_cast<std::int64_t>(uniform_(random_) *
                                                static_cast<double>(plan_.most_delay.count())));
    late.timer = loop_.schedule_after(by, {[](void* context, std::uint64_t) {
                                             auto& l = *static_cast<Late*>(context);
                                             l.timer = {};
                                             if (l.connection->killed_) return;
                                             l.connection->owner_.completed(l.id, l.status, l.begin,
                                                                            l.applied);
                                           },
                                           &late, 0});
  }

  WallLoop& loop_;
  ConnectionOwner& owner_;
  FaultPlan plan_;
  std::mt19937_64 random_;
  std::uniform_real_distribution<double> uniform_{0, 1};
  std::unique_ptr<Connection> inner_;
  std::deque<std::unique_ptr<Late>> late_;
  std::int64_t seen_ = 0;
  bool killed_ = false;
};

// Wraps what a backend prepares.
class FaultyPending final : public PendingConnection {
 public:
  FaultyPending(WallLoop& loop, ConnectionOwner& owner, const FaultPlan& plan)
      : connection_(std::make_unique<FaultyConnection>(loop, owner, plan)) {}
  ConnectionOwner& inner_owner() { return *connection_; }
  void set(std::unique_ptr<PendingConnection> inner) { inner_ = std::move(inner); }

  std::vector<std::byte> offer() override { return inner_->offer(); }
  void connect(std::span<const std::byte> from_peer) override { inner_->connect(from_peer); }
  const std::string& error() const override { return inner_->error(); }
  std::unique_ptr<Connection> take() override {
    std::unique_ptr<Connection> made = inner_->take();
    if (!made) return nullptr;
    connection_->set(std::move(made));
    return std::move(connection_);
  }

 private:
  std::unique_ptr<FaultyConnection> connection_;
  std::unique_ptr<PendingConnection> inner_;
};

}  // namespace kvlane::live::test
