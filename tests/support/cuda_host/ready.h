#pragma once
// Which of the lanes that can run runs next. The order is a function of the seed.

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "tests/support/cuda_host/executor.h"
#include "tests/support/cuda_host/sanitize.h"

namespace cuda_host {

// Splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  int below(int n) {  // n > 0
    return static_cast<int>(((next() >> 32) * static_cast<std::uint64_t>(n)) >> 32);
  }
  template <typename T>
  void shuffle(std::vector<T>& values) {
    for (int i = static_cast<int>(values.size()); i > 1; --i) {
      std::swap(values[static_cast<std::size_t>(i - 1)],
                values[static_cast<std::size_t>(below(i))]);
    }
  }

 private:
  std::uint64_t state_;
};

class ReadyLanes {
 public:
  static constexpr int kMax = 1024;

  void reset(int lanes, Order order, Dice& dice) {
    order_ = order;
    lanes_ = lanes;
    dice_ = &dice;
    ready_.fill(0);
    count_ = 0;
    lane_of_.resize(static_cast<std::size_t>(lanes));
    rank_of_.resize(static_cast<std::size_t>(lanes));
    for (int i = 0; i < lanes; ++i) lane_of_[static_cast<std::size_t>(i)] = i;
    if (order == Order::lanes || order == Order::warps) dice.shuffle(lane_of_);
    if (order == Order::warps) {
      warps_.resize(static_cast<std::size_t>((lanes + 31) / 32));
      for (std::size_t i = 0; i < warps_.size(); ++i) warps_[i] = static_cast<int>(i);
      dice.shuffle(warps_);
      group_by_warp();
    }
    number();
  }

  void add(int lane) {
    const int at = order_ == Order::uniform ? count_ : rank_of_[static_cast<std::size_t>(lane)];
    if (order_ == Order::uniform) {
      list_[static_cast<std::size_t>(at)] = lane;
    } else {
      ready_[static_cast<std::size_t>(at / 64)] |= std::uint64_t{1} << (at % 64);
    }
    ++count_;
  }

  int take() {  // -1: none
    if (count_ == 0) return -1;
    if (order_ == Order::uniform) {
      const auto at = static_cast<std::size_t>(dice_->below(count_--));
      return std::exchange(list_[at], list_[static_cast<std::size_t>(count_)]);
    }
    if (order_ == Order::warps && dice_->below(256) == 0) promote_a_warp();
    for (std::size_t word = 0;; ++word) {
      if (ready_[word] == 0) continue;
      const int bit = __builtin_ctzll(ready_[word]);
      ready_[word] &= ready_[word] - 1;
      --count_;
      return lane_of_[word * 64 + static_cast<std::size_t>(bit)];
    }
  }

 private:
  void number() {
    for (std::size_t i = 0; i < lane_of_.size(); ++i) {
      rank_of_[static_cast<std::size_t>(lane_of_[i])] = static_cast<int>(i);
    }
  }
  // Keeps the order of lanes within a warp.
  void group_by_warp() {
    std::vector<int> grouped;
    grouped.reserve(lane_of_.size());
    for (int warp : warps_) {
      for (int lane : lane_of_) {
        if (lane / 32 == warp) grouped.push_back(lane);
      }
    }
    lane_of_ = grouped;
  }
  void promote_a_warp() {
    const Unseen unseen;  // called while a lane runs
    std::vector<int> can_run;
    for (int i = 0; i < lanes_; ++i) {
      if ((ready_[static_cast<std::size_t>(i / 64)] >> (i % 64) & 1) != 0) {
        can_run.push_back(lane_of_[static_cast<std::size_t>(i)]);
      }
    }
    const int chosen = dice_->below(static_cast<int>(warps_.size()));
    std::swap(warps_[0], warps_[static_cast<std::size_t>(chosen)]);
    group_by_warp();
    number();
    ready_.fill(0);
    count_ = 0;
    for (int lane : can_run) add(lane);
  }

  Order order_ = Order::in_turn;
  int lanes_ = 0, count_ = 0;
  Dice* dice_ = nullptr;
  std::array<std::uint64_t, kMax / 64> ready_{};  // by rank
  std::array<int, kMax> list_{};                  // for Order::uniform
  std::vector<int> lane_of_, rank_of_, warps_;
};

}  // namespace cuda_host
