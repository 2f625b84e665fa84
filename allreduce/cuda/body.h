// body.h: the one entry of every kernel: a block's part of a call, on a device's threads or the
// host's. Ends with a report: done, or what it waited for in vain.
#pragma once

#include "allreduce/cuda/direct.h"
#include "allreduce/cuda/packet.h"
#include "allreduce/cuda/ring.h"
#include "allreduce/cuda/tree.h"

namespace lockstep::gpu {

template <typename F, Kernel kernel, typename Team>
LOCKSTEP_ANYWHERE bool RunBody(Team* team, const Call& call, const Block& block) {
  if constexpr (kernel == Kernel::kRing) return RunRing<F>(team, call, block);
  if constexpr (kernel == Kernel::kTree) return RunTree<F>(team, call, block);
  if constexpr (kernel == Kernel::kDirect) return RunDirect<F, /*kToAll=*/true>(team, call, block);
  if constexpr (kernel == Kernel::kPull) return RunDirect<F, /*kToAll=*/false>(team, call, block);
  if constexpr (kernel == Kernel::kPacket) return RunPacket<F>(team, call, block);
}

template <typename F, Kernel kernel, typename Team>
LOCKSTEP_ANYWHERE void RunBlock(Team* team, const Call& call, const Block& block) {
  // Once stopped, a group does nothing more, and what was reported then stays.
  const bool first = team->rank() == 0;
  const bool stopped = first && team->Stopped(call.stop);
  if (first && !stopped) team->StoreRelaxed(block.report, 0);
  if (team->Any(stopped)) return;
  if (!RunBody<F, kernel>(team, call, block)) return;  // the report is written
  if (first) {
    team->StoreRelaxed(block.report, Report{.outcome = Outcome::kDone}.Word());
  }
}

}  // namespace lockstep::gpu
