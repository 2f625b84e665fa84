// lane.h: the connections of one block. A move waits for its messages and for free slots to send
// to, then all threads move data, then thread 0 posts what was sent and gives back the slots that
// were read. Only thread 0 touches flags: it acquires before a barrier and releases behind one,
// which orders the accesses of all threads. Threads: all of a team, in step.
#pragma once

#include <cstdint>

#include "allreduce/cuda/call.h"
#include "allreduce/cuda/wait.h"

namespace lockstep::gpu {

template <typename Team>
class Lane {
 public:
  // The first so many ends that a move uses.
  struct Ends {
    int32_t incoming = 0;
    int32_t outgoing = 0;
  };

  LOCKSTEP_ANYWHERE Lane(Team* team, const Call& call, const Block& block)
      : team_(team),
        call_(call),
        block_(block),
        watch_(team, call, block),
        progress_(*block.progress) {}

  // False: the launch ends; nothing may be moved any more.
  LOCKSTEP_ANYWHERE bool Await(const Ends& ends) {
    bool failed = false;
    if (team_->rank() == 0) failed = !AwaitFlags(ends);
    return !team_->Any(failed);
  }

  LOCKSTEP_ANYWHERE const std::byte* Arrived(int end) const {
    return block_.incoming[end].slots + SlotOf(progress_.received[end]);
  }
  LOCKSTEP_ANYWHERE std::byte* Free(int end) const {
    return block_.outgoing[end].slots + SlotOf(progress_.sent[end]);
  }

  LOCKSTEP_ANYWHERE void Done(const Ends& ends) {
    team_->Sync();
    LOCKSTEP_UNROLL
    for (int end = 0; end < kChildrenMax; ++end) {
      if (end < ends.outgoing) {
        ++progress_.sent[end];
        if (team_->rank() == 0) {
          team_->StoreRelease(block_.outgoing[end].posted, progress_.sent[end]);
        }
      }
      if (end < ends.incoming) {
        ++progress_.received[end];
        if (team_->rank() == 0) {
          team_->StoreRelease(block_.incoming[end].credit, progress_.received[end]);
        }
      }
    }
  }

  // Behind the last move of a call.
  LOCKSTEP_ANYWHERE void Save() {
    if (team_->rank() == 0) *block_.progress = progress_;
  }

 private:
  LOCKSTEP_ANYWHERE bool AwaitFlags(const Ends& ends) const {
    bool ready = true;
    LOCKSTEP_UNROLL
    for (int end = 0; end < kChildrenMax; ++end) {
      if (ready && end < ends.incoming) {
        const Incoming& from = block_.incoming[end];
        const uint64_t needed = progress_.received[end] + 1;
        ready = watch_.Until([&] { return team_->LoadAcquire(from.posted) >= needed; },
                             WaitFor::kMessage, from.peer);
      }
      if (ready && end < ends.outgoing) {
        const Outgoing& to = block_.outgoing[end];
        const uint64_t needed = progress_.sent[end] + 1;
        const auto slots = static_cast<uint64_t>(call_.slots);
        ready = watch_.Until([&] { return team_->LoadAcquire(to.credit) + slots >= needed; },
                             WaitFor::kSlot, to.peer);
      }
    }
    return ready;
  }

  LOCKSTEP_ANYWHERE int64_t SlotOf(uint64_t message) const {
    return static_cast<int64_t>(message % static_cast<uint64_t>(call_.slots)) * call_.slot_bytes;
  }

  Team* const team_;
  const Call& call_;
  const Block& block_;
  const Watch<Team> watch_;
  Progress progress_;
};

}  // namespace lockstep::gpu
