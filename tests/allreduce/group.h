// group.h: n ranks as n threads over either transport, for tests, and the ways to all-reduce among
// them. Each Run gives every rank one thread.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "allreduce/communicator.h"
#include "allreduce/transport/fault_link.h"
#include "allreduce/transport/in_process.h"
#include "allreduce/transport/tcp.h"
#include "base/abort.h"
#include "base/check.h"
#include "base/clock.h"
#include "tests/allreduce/dying_link.h"

namespace lockstep {

enum class Transport { kInProcess, kTcp };
inline const char* NameOf(Transport transport) {
  return transport == Transport::kTcp ? "Tcp" : "InProcess";
}

// Runs body(rank) on a thread a rank and waits for all.
template <typename Body>
void OnEachRank(int n, const Body& body) {
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(n));
  for (int rank = 0; rank < n; ++rank) threads.emplace_back([&body, rank] { body(rank); });
  for (std::thread& thread : threads) thread.join();
}

// [rank]: listeners bound to loopback, and the endpoints of all.
inline std::pair<std::vector<Listener>, std::vector<Endpoint>> ListenOnLoopback(int n) {
  std::vector<Listener> listeners;
  std::vector<Endpoint> endpoints;
  for (int rank = 0; rank < n; ++rank) {
    absl::StatusOr<Listener> listener = Listen({"127.0.0.1", 0});
    CHECK(listener.ok()) << listener.status();
    endpoints.push_back(listener->endpoint);
    listeners.push_back(*std::move(listener));
  }
  return {std::move(listeners), std::move(endpoints)};
}

inline std::vector<std::unique_ptr<Link>> ConnectTcpLinks(int n, int channels, const Limits& limits,
                                                          const Clock& clock, const Abort& abort) {
  auto [listeners, endpoints] = ListenOnLoopback(n);
  std::vector<std::unique_ptr<Link>> links(static_cast<size_t>(n));
  OnEachRank(n, [&, &listeners = listeners, &endpoints = endpoints](int rank) {
    const auto r = static_cast<size_t>(rank);
    const TcpGroup group{rank, endpoints, /*epoch=*/1, "token", channels};
    absl::StatusOr<std::unique_ptr<Link>> link =
        ConnectTcpMesh(std::move(listeners[r]), group, limits, clock, abort);
    CHECK(link.ok()) << link.status();
    links[r] = *std::move(link);
  });
  return links;
}

inline Limits TestLimits(int64_t sync_timeout_ms = 10'000) {
  Limits limits;
  limits.sync_timeout_ms = sync_timeout_ms;
  return limits;
}

// A way to all-reduce. Its servers are ranks beyond those that hold input.
struct Way {
  Algorithm algorithm = Algorithm::kRing;
  int servers = 0;
};
inline std::string NameOf(const Way& way) {
  switch (way.algorithm) {
    case Algorithm::kRing:
      return "Ring";
    case Algorithm::kNaive:
      return "Naive";
    case Algorithm::kTree:
      return "Tree";
    case Algorithm::kPsExchange:
      return absl::StrCat("Servers", way.servers);
  }
  return "Unknown";
}
inline std::vector<Way> AllWays() {
  return {{Algorithm::kRing},          {Algorithm::kNaive},         {Algorithm::kTree},
          {Algorithm::kPsExchange, 1}, {Algorithm::kPsExchange, 2}, {Algorithm::kPsExchange, 3}};
}

struct GroupOptions {
  int n = 1;  // ranks, the way's servers included
  Transport transport = Transport::kInProcess;
  int channels = 1;
  Limits limits = TestLimits();
  std::vector<std::pair<int, FaultRule>> faults = {};  // (rank, rule)
  Way way = {};
  int dying_rank = -1;  // it is killed in its first wait after so many sends
  int dying_sends = 0;
};

// `inputs` ranks that hold input, and the way's servers.
inline GroupOptions OptionsOf(const Way& way, int inputs) {
  GroupOptions options;
  options.n = inputs + way.servers;
  options.way = way;
  return options;
}

class RankGroup {
 public:
  explicit RankGroup(const GroupOptions& options) : options_(options) {
    std::vector<std::unique_ptr<Link>> links =
        options.transport == Transport::kTcp
            ? ConnectTcpLinks(options.n, options.channels, options.limits, clock_, abort_)
            : MakeInProcessLinks({options.n, options.channels}, options.limits, clock_, abort_);
    for (int rank = 0; rank < options.n; ++rank) {
      std::vector<FaultRule> rules;
      for (const auto& [owner, rule] : options.faults) {
        if (owner == rank) rules.push_back(rule);
      }
      CommunicatorOptions communicator;
      communicator.algorithm = options.way.algorithm;
      communicator.channels = options.channels;
      communicator.servers = options.way.servers;
      communicator.limits = options.limits;
      std::unique_ptr<Link> link =
          MakeFaultLink(std::move(links[static_cast<size_t>(rank)]), std::move(rules), clock_);
      if (rank == options.dying_rank) {
        link = std::make_unique<DyingLink>(std::move(link), options.dying_sends);
      }
      communicators_.push_back(MakeHostCommunicator(std::move(link), clock_, communicator));
    }
  }

  // body(rank, communicator) -> status, on a thread a rank.
  template <typename Body>
  std::vector<absl::Status> Run(const Body& body) {
    std::vector<absl::Status> statuses(static_cast<size_t>(options_.n));
    OnEachRank(options_.n,
               [&](int rank) { statuses[static_cast<size_t>(rank)] = body(rank, at(rank)); });
    return statuses;
  }

  Communicator& at(int rank) { return *communicators_[static_cast<size_t>(rank)]; }
  // Closes this rank's link.
  void Destroy(int rank) { communicators_[static_cast<size_t>(rank)].reset(); }
  const Clock& clock() const { return clock_; }
  Abort& abort() { return abort_; }
  int n() const { return options_.n; }
  int inputs() const { return options_.n - options_.way.servers; }

 private:
  const GroupOptions options_;
  MonotonicClock clock_;
  Abort abort_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
};

}  // namespace lockstep
