// relay.h: a TCP relay between a client and a server of this process: it holds bytes back, or
// breaks the connection once so many have passed. gRPC sees what a bad network shows it. One
// thread of its own; the other functions may be called from any.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <limits>
#include <list>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/socket.h"

namespace lockstep {

class Relay {
 public:
  enum Way : size_t { kToServer = 0, kToClient = 1 };

  // `delay_ms`: of every byte, both ways.
  Relay(Endpoint server, int64_t delay_ms)
      : server_(std::move(server)), delay_ns_(delay_ms * kNsPerMs) {
    auto listener = Listen({"127.0.0.1", 0});
    CHECK(listener.ok()) << listener.status().ToString();
    listener_ = *std::move(listener);
    thread_ = std::thread([this] { Run(); });
  }
  ~Relay() {
    stopping_ = true;
    thread_.join();
  }
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  const Endpoint& endpoint() const { return listener_.endpoint; }
  // The next `bytes` that way get through; then every connection of that moment breaks.
  void CutAfter(Way way, int64_t bytes) { left_[way] = bytes; }
  int64_t cuts() const { return cuts_; }

 private:
  static constexpr int kTickMs = 2;
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  struct Piece {
    int64_t due_ns = 0;
    std::string bytes;
  };
  struct Connection {
    std::array<UniqueFd, 2> ends;             // client's, server's
    std::array<std::deque<Piece>, 2> pieces;  // [way]
    bool over = false;
  };

  void Run() {
    while (!stopping_) {
      std::vector<pollfd> polled = {{listener_.fd.get(), POLLIN, 0}};
      for (const Connection& each : connections_) {
        for (const UniqueFd& end : each.ends) polled.push_back({end.get(), POLLIN, 0});
      }
      (void)::poll(polled.data(), polled.size(), kTickMs);
      Accept();
      for (Connection& each : connections_) {
        for (const Way way : {kToServer, kToClient}) Move(&each, way);
      }
      connections_.remove_if([](const Connection& each) { return each.over; });
    }
  }
  void Accept() {
    UniqueFd client(::accept4(listener_.fd.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!client.valid()) return;
    auto server = StartConnect(server_);
    CHECK(server.ok()) << server.status().ToString();
    Connection& connection = connections_.emplace_back();
    connection.ends = {std::move(client), *std::move(server)};
  }
  void Move(Connection* connection, Way way) {
    const int from = connection->ends[way].get();
    const int to = connection->ends[1 - way].get();
    std::deque<Piece>& pieces = connection->pieces[way];
    std::string bytes(size_t{1} << 14, '\0');
    const ssize_t got = ::recv(from, bytes.data(), bytes.size(), 0);
    if (got == 0) connection->over = true;
    if (got > 0) {
      bytes.resize(static_cast<size_t>(got));
      pieces.push_back({clock_.NowNs() + delay_ns_, std::move(bytes)});
    }
    while (!pieces.empty() && pieces.front().due_ns <= clock_.NowNs() && !connection->over) {
      std::string& next = pieces.front().bytes;
      const auto whole = static_cast<int64_t>(next.size());
      // CutAfter may be called meanwhile, and means what comes after this.
      const int64_t left = left_[way];
      const auto fits = static_cast<size_t>(std::min(whole, left));
      const ssize_t sent = ::send(to, next.data(), fits, MSG_NOSIGNAL);
      if (sent < 0) return;
      next.erase(0, static_cast<size_t>(sent));
      if (left != kNever) left_[way] = left - sent;
      if (left == sent) return Cut(way);
      if (next.empty()) pieces.pop_front();
    }
  }
  void Cut(Way way) {
    left_[way] = kNever;
    for (Connection& each : connections_) each.over = true;
    ++cuts_;
  }

  const MonotonicClock clock_;
  const Endpoint server_;
  const int64_t delay_ns_;
  Listener listener_;
  std::list<Connection> connections_;
  std::array<std::atomic<int64_t>, 2> left_ = {kNever, kNever};
  std::atomic<int64_t> cuts_ = 0;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace lockstep
