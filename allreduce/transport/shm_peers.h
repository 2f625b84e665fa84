// shm_peers.h: what a rank's waits in shared memory have in common: its own bell and the others',
// and what is looked at between two sleeps: abort, deadline and the control connections, by which a
// peer's death is noticed. Errors: the Abort's own status, Aborted, Unavailable (tcp_controls.h).
// Threads: one.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "allreduce/transport/shm_bell.h"
#include "allreduce/transport/tcp_controls.h"
#include "base/abort.h"
#include "base/clock.h"

namespace lockstep {

class ShmPeers {
 public:
  // `bells` is [rank]; they, `clock` and `abort` must outlive this.
  ShmPeers(int rank, std::vector<ShmBell*> bells, TcpControls controls, const Clock& clock,
           const Abort& abort);

  int rank() const { return rank_; }
  int world_size() const { return static_cast<int>(bells_.size()); }
  ShmBell* bell(int peer) const { return bells_[static_cast<size_t>(peer)]; }
  void WakeAll();
  SpinWait NewSpin() const { return {crowded_, clock_}; }

  // Looks at the abort and at the control connections. A peer that has left while wanted(peer) is
  // lost; what it wrote before it left is visible when wanted is asked.
  absl::Status Look(absl::FunctionRef<bool(int peer)> wanted);
  bool Late(int64_t deadline_ns) const { return clock_.NowNs() >= deadline_ns; }
  // Sleeps until the bell rings, a slice is over or the deadline has come. Slices grow with the
  // number of sleeps of one wait, so that a long one costs nearly no processor time.
  void Sleep(absl::FunctionRef<bool()> ready, int sleeps, int64_t deadline_ns);

  TcpControls& controls() { return controls_; }
  const TcpControls& controls() const { return controls_; }
  const Abort& abort() const { return abort_; }

 private:
  const int rank_;
  const std::vector<ShmBell*> bells_;
  TcpControls controls_;
  const Clock& clock_;
  const Abort& abort_;
  const bool crowded_;
};

}  // namespace lockstep
