// tcp.h: a full mesh of TCP connections between the ranks of one epoch.
// I/O happens in the calling thread: a short spin, then poll (PEERS: a wake-up across cores costs
// 35-40 us). Each connection proves epoch, rank and token before any data; strangers are closed and
// ignored. Errors: DeadlineExceeded naming every rank that did not connect within
// limits.connect_timeout_ms, Unavailable naming the rank whose connection broke; both with
// BlamedBy().
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "allreduce/transport/link.h"
#include "base/abort.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/socket.h"

namespace lockstep {

struct TcpGroup {
  int rank = 0;
  std::vector<Endpoint> endpoints;  // [rank]: where each rank listens
  int64_t epoch = 0;
  std::string token;
  int channels = 1;  // data connections per pair
  // Of all connections, e.g. "cubic"; empty: the system's. InvalidArgument, with those there are.
  std::string congestion_control = {};
};

// `listener` is this rank's, already bound to endpoints[rank]. `clock` and `abort` must outlive the
// link.
absl::StatusOr<std::unique_ptr<Link>> ConnectTcpMesh(Listener listener, const TcpGroup& group,
                                                     const Limits& limits, const Clock& clock,
                                                     const Abort& abort);

// Congestion control of new TCP sockets on this host, e.g. "bbr": printed with every result.
std::string TcpCongestionControl();

}  // namespace lockstep
