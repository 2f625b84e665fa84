// tcp_controls.h: the control connections of one rank to all others, and what they tell about each
// peer. Errors: Aborted (a peer reports a failure), Unavailable (a lost rank), the Abort's own
// status. Threads: one.
#pragma once

#include <poll.h>

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "allreduce/transport/link.h"
#include "allreduce/transport/tcp_control.h"
#include "base/abort.h"
#include "base/clock.h"

namespace lockstep {

class TcpControls {
 public:
  // `sockets` is [rank], invalid for the rank itself. `clock` and `abort` must outlive this.
  TcpControls(int rank, int64_t epoch, std::vector<UniqueFd> sockets, const Clock& clock,
              const Abort& abort);

  // Reads what is there, without waiting; true when a peer's state changed.
  bool Look();
  // A peer that has left although something is wanted from it is lost.
  void Want(int peer);
  // OK while no peer has reported or been lost. Reports come first: a peer that reported and then
  // closed its link isn't lost.
  absl::Status PeerError() const;
  const std::vector<PeerState>& peers() const { return peers_; }

  void SendReport(std::span<const std::byte> report);
  void SayGoodbye();
  absl::Status AwaitReports(int64_t deadline_ns);
  // Sleeps until a control connection, the abort or one of `others` has something, or the deadline.
  // *news: a control connection has.
  absl::Status Wait(std::span<const pollfd> others, int64_t deadline_ns, bool* news);

 private:
  const int rank_;
  const Clock& clock_;
  const Abort& abort_;
  std::vector<TcpControl> controls_;  // [peer]
  std::vector<PeerState> peers_;      // [peer]
  std::vector<pollfd> poll_;          // kept, so that a wait allocates nothing
};

}  // namespace lockstep
