// group.h: n ranks as n threads over any transport, for tests, and the ways to all-reduce among
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
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "allreduce/communicator.h"
#include "allreduce/transport/fault_link.h"
#include "allreduce/transport/in_process.h"
#include "allreduce/transport/shm.h"
#include "allreduce/transport/tcp.h"
#include "base/abort.h"
#include "base/check.h"
#include "base/clock.h"
#include "tests/allreduce/dying_link.h"
#include "tests/allreduce/one_mapping.h"

namespace lockstep {

enum class Transport { kInProcess, kTcp, kShm };
inline const char* NameOf(Transport transport) {
  if (transport == Transport::kShm) return "Shm";
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

// connect(listener, group) -> link, on a thread a rank.
template <typename Connect>
std::vector<std::unique_ptr<Link>> ConnectLinks(int n, int channels, const Connect& connect) {
  auto [listeners, endpoints] = ListenOnLoopback(n);
  std::vector<std::unique_ptr<Link>> links(static_cast<size_t>(n));
  OnEachRank(n, [&, &listeners = listeners, &endpoints = endpoints](int rank) {
    const auto r = static_cast<size_t>(rank);
    TcpGroup group;
    group.rank = rank;
    group.endpoints = endpoints;
    group.epoch = 1;
    group.token = "token";
    group.channels = channels;
    absl::StatusOr<std::unique_ptr<Link>> link = connect(std::move(listeners[r]), group);
    CHECK(link.ok()) << link.status();
    links[r] = *std::move(link);
  });
  return links;
}

inline std::vector<std::unique_ptr<Link>> ConnectTcpLinks(int n, int channels, const Limits& limits,
                                                          const Clock& clock, const Abort& abort) {
  return ConnectLinks(n, channels, [&](Listener listener, const TcpGroup& group) {
    return ConnectTcpMesh(std::move(listener), group, limits, clock, abort);
  });
}

// The ranks use one mapping together, so that a sanitizer sees that they mean the same bytes.
inline std::vector<std::unique_ptr<Link>> ConnectShmLinks(int n, int channels, const Limits& limits,
                                                          const Clock& clock, const Abort& abort) {
  const auto mappings = std::make_shared<OneMapping>();
  return ConnectLinks(n, channels, [&](Listener listener, const TcpGroup& group) {
    return ConnectShmMesh(std::move(listener), group, limits, clock, abort,
                          [mappings](int fd, int64_t offset, int64_t bytes) {
                            return mappings->Map(fd, offset, bytes);
                          });
  });
}

// Of the transport, with epoch 1.
inline std::vector<std::unique_ptr<Link>> MakeLinks(Transport transport, int n, int channels,
                                                    const Limits& limits, const Clock& clock,
                                                    const Abort& abort) {
  switch (transport) {
    case Transport::kTcp:
      return ConnectTcpLinks(n, channels, limits, clock, abort);
    case Transport::kShm:
      return ConnectShmLinks(n, channels, limits, clock, abort);
    case Transport::kInProcess:
      break;
  }
  return MakeInProcessLinks({.world_size = n, .channels = channels, .epoch = 1}, limits, clock,
                            abort);
}

inline Limits TestLimits(int64_t sync_timeout_ms = 10'000) {
  Limits limits;
  limits.sync_timeout_ms = sync_timeout_ms;
  return limits;
}

// A way to all-reduce. Spare servers are ranks beyond those that hold input.
struct Way {
  Algorithm algorithm = Algorithm::kRing;
  int servers = 0;
  Placement placement = Placement::kSpare;
  int spare() const { return placement == Placement::kColocated ? 0 : servers; }
};
// "Ring", "HalvingDoubling", "Servers2", "Servers1Split".
inline std::string NameOf(const Way& way) {
  std::string name;
  if (way.algorithm == Algorithm::kPsExchange) {
    name = absl::StrCat("servers", way.servers);
    if (way.placement != Placement::kSpare) absl::StrAppend(&name, "_", NameOf(way.placement));
  } else {
    name = NameOf(way.algorithm);
  }
  std::string camel;
  bool begins = true;
  for (const char c : name) {
    if (c != '_') camel += begins ? absl::ascii_toupper(static_cast<unsigned char>(c)) : c;
    begins = c == '_';
  }
  return camel;
}
// Those that have tests of their own for bytes and order.
inline std::vector<Way> ClassicWays() {
  return {{Algorithm::kRing},          {Algorithm::kNaive},         {Algorithm::kTree},
          {Algorithm::kPsExchange, 1}, {Algorithm::kPsExchange, 2}, {Algorithm::kPsExchange, 3}};
}
inline std::vector<Way> AllWays() {
  std::vector<Way> ways = ClassicWays();
  for (const Algorithm algorithm :
       {Algorithm::kStar, Algorithm::kDoubleTree, Algorithm::kHalvingDoubling, Algorithm::kDirect,
        Algorithm::kHierarchical, Algorithm::kRecursiveDoubling}) {
    ways.push_back({algorithm});
  }
  ways.push_back({Algorithm::kPsExchange, 1, Placement::kColocated});
  ways.push_back({Algorithm::kPsExchange, 1, Placement::kSplit});
  return ways;
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
  options.n = inputs + way.spare();
  options.way = way;
  return options;
}

class RankGroup {
 public:
  explicit RankGroup(const GroupOptions& options) : options_(options) {
    const int channels = LinkChannelsOf({.algorithm = options.way.algorithm,
                                         .channels = options.channels,
                                         .placement = options.way.placement});
    std::vector<std::unique_ptr<Link>> links =
        MakeLinks(options.transport, options.n, channels, options.limits, clock_, abort_);
    for (int rank = 0; rank < options.n; ++rank) {
      std::vector<FaultRule> rules;
      for (const auto& [owner, rule] : options.faults) {
        if (owner == rank) rules.push_back(rule);
      }
      CommunicatorOptions communicator;
      communicator.algorithm = options.way.algorithm;
      communicator.channels = options.channels;
      communicator.servers = options.way.servers;
      communicator.placement = options.way.placement;
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
  int inputs() const { return options_.n - options_.way.spare(); }

 private:
  const GroupOptions options_;
  MonotonicClock clock_;
  Abort abort_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
};

}  // namespace lockstep
