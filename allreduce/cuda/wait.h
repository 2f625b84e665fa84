// wait.h: the one loop in which a thread of a kernel waits. It ends when what it waits for is
// there, when somebody has asked all to stop, or at the launch's deadline; then it asks all to stop
// itself, so that one missing rank ends every block. A kernel that hangs may need a reset of its
// device, so no wait is without these bounds.
//
// A Team is the threads of one block. rank(), size(): this thread and how many. Sync(): waits for
// all of them. Any(b): Sync, and true if it was true for one. Pause(spins), NowNs(). LoadAcquire,
// StoreRelease, LoadRelaxed, StoreRelaxed: flags of 64 bits. Put(at, flag, data):
// writes a packet's word; Take(at, flag, &data): true if the word there has this flag. Load<T>,
// Store<T>: data, at a multiple of T's size. Note(noted): for tests, where kNotes.
#pragma once

#include <cstdint>

#include "allreduce/cuda/call.h"

namespace lockstep::gpu {

// A look at the clock and at host memory takes microseconds.
inline constexpr uint32_t kSpinsPerLook = 64;

template <typename Team>
class Watch {
 public:
  LOCKSTEP_ANYWHERE Watch(Team* team, const Call& call, const Block& block)
      : team_(team), call_(call), block_(block), deadline_ns_(team->NowNs() + call.timeout_ns) {}

  // For one thread. `ready` is asked again and again. False: gave up, and has said so in the
  // report.
  template <typename Ready>
  LOCKSTEP_ANYWHERE bool Until(const Ready& ready, WaitFor wait_for, int32_t peer) const {
    for (uint32_t spins = 0; !ready(); ++spins) {
      if (spins % kSpinsPerLook == kSpinsPerLook - 1 && !MayGoOn(wait_for, peer)) return false;
      team_->Pause(spins);
    }
    return true;
  }

 private:
  LOCKSTEP_ANYWHERE bool MayGoOn(WaitFor wait_for, int32_t peer) const {
    const bool stopped = team_->Stopped(call_.stop);
    if (!stopped && team_->NowNs() < deadline_ns_) return true;
    const Report report{stopped ? Outcome::kStopped : Outcome::kTimedOut, wait_for, peer};
    // The first of a block's threads to give up knows best why.
    if (!stopped || team_->LoadRelaxed(block_.report) == 0) {
      team_->StoreRelaxed(block_.report, report.Word());
    }
    if (!stopped) team_->Stop(call_.stop);
    return false;
  }

  Team* const team_;
  const Call& call_;
  const Block& block_;
  const int64_t deadline_ns_;
};

}  // namespace lockstep::gpu
