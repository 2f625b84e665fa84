// network.h: the clock, the chance and the network of the coordinator's simulations: events in the
// order of their time, messages that are late by their own random time but first in first out on
// their connection. All of it from one seed. Threads: one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <queue>
#include <random>
#include <utility>

#include "base/clock.h"
#include "base/limits.h"

namespace lockstep::sim {

inline constexpr int64_t kTickMs = 50;
inline constexpr int64_t kEndMs = 120'000;  // nothing may take as long
inline constexpr int64_t kSpawnMsMax = 150;
inline constexpr int64_t kTrainsFromMs = 250;  // at the latest

inline Limits SimLimits() {
  Limits limits;
  limits.join_timeout_ms = 3'000;
  limits.connect_timeout_ms = 300;
  limits.sync_timeout_ms = 400;
  limits.heartbeat_ms = 50;
  limits.lease_ms = 300;
  limits.stop_grace_ms = 200;
  limits.settle_ms = 50;
  limits.rebuild_timeout_ms = 4'000;
  return limits;
}

class Network {
 protected:
  explicit Network(uint64_t seed) : random_(seed) {}

  template <typename Over>
  void RunUntil(const Over& over) {
    while (!queue_.empty() && now_ms_ < kEndMs && !over()) {
      Event event = queue_.top();
      queue_.pop();
      now_ms_ = event.at_ms;
      event.run();
    }
  }
  int64_t NowNs() const { return now_ms_ * kNsPerMs; }
  int64_t Draw(int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random_);
  }
  void At(int64_t at_ms, std::function<void()> run) {
    queue_.push({std::max(at_ms, now_ms_), order_++, std::move(run)});
  }
  void Every(int64_t pause_ms, const std::function<void()>& run) {
    run();
    At(now_ms_ + pause_ms, [this, pause_ms, run] { Every(pause_ms, run); });
  }
  // First in, first out on the connection `key`.
  using Connection = std::pair<int64_t, int64_t>;
  static Connection Up(int64_t id) { return {id, 0}; }
  static Connection Down(int64_t id) { return {0, id}; }
  static Connection Between(int64_t from, int64_t to) { return {from, to}; }
  void Deliver(const Connection& key, int64_t delay_ms, std::function<void()> run) {
    int64_t& last_ms = connections_[key];
    last_ms = std::max(last_ms, now_ms_ + delay_ms);
    At(last_ms, std::move(run));
  }

  std::mt19937_64 random_;
  int64_t now_ms_ = 0;

 private:
  struct Event {
    int64_t at_ms = 0;
    int64_t order = 0;
    std::function<void()> run;
    bool operator<(const Event& other) const {
      return std::make_pair(at_ms, order) > std::make_pair(other.at_ms, other.order);
    }
  };
  std::priority_queue<Event> queue_;
  int64_t order_ = 0;
  std::map<Connection, int64_t> connections_;  // when the last message of each arrives
};

}  // namespace lockstep::sim
