// direct.h: the kernels that read their peers' data where they stand. kDirect (two-shot): block =
// (rank, channel) sums its rank's part of every input in rank order and writes it to every output:
// 2n elements for each element of the data, the least there is. kPull (one-shot): it sums its
// channel of every input and writes its own output: n(n+1). Both begin with a meeting, since inputs
// must be there and outputs free, and end with one, since only then nobody reads or writes there
// any more. So no connections and no slots. kPull needs outputs that are no inputs.
#pragma once

#include "allreduce/cuda/call.h"
#include "allreduce/cuda/carry.h"
#include "allreduce/cuda/wait.h"

namespace lockstep::gpu {

// Returns when every rank's block of this channel has come to its `meeting`-th meeting.
template <typename Team>
LOCKSTEP_ANYWHERE bool Meet(Team* team, const Call& call, const Block& block,
                            const Watch<Team>& watch, uint64_t meeting) {
  team->Sync();  // what all threads did before is released by those that tell the peers
  for (int32_t peer = team->rank(); peer < call.world_size; peer += team->size()) {
    if (peer != block.rank) team->StoreRelease(block.arrival_at[peer], meeting);
  }
  bool failed = false;
  for (int32_t peer = team->rank(); peer < call.world_size; peer += team->size()) {
    if (peer == block.rank || failed) continue;
    const auto* const line = reinterpret_cast<const uint64_t*>(block.arrivals + peer * kLineBytes);
    failed =
        !watch.Until([&] { return team->LoadAcquire(line) >= meeting; }, WaitFor::kMeeting, peer);
  }
  return !team->Any(failed);
}

template <typename Team>
LOCKSTEP_INLINE void NoteDirect(Team* team, const Call& call, const Block& block, int32_t chunk,
                                bool to_all) {
  if constexpr (Team::kNotes) {
    Noted noted{.chunk = chunk};
    for (int32_t rank = 0; rank < call.world_size; ++rank) {
      const int32_t place = rank == block.rank ? Noted::kOwn : rank;
      noted.source[noted.sources++] = place;
      if (to_all || place == Noted::kOwn) noted.target[noted.targets++] = place;
    }
    team->Note(noted);
  }
}

template <typename F, bool kToAll, typename Team>
LOCKSTEP_ANYWHERE bool RunDirect(Team* team, const Call& call, const Block& block) {
  constexpr auto kSize = static_cast<int64_t>(sizeof(typename F::Stored));
  const Watch<Team> watch(team, call, block);
  const uint64_t meeting = block.progress->meetings;
  const int32_t chunk = kToAll ? block.chunk + block.rank : block.chunk;
  const Piece piece = call.cut.OfChunk(chunk);
  const AllSources sources{call.inputs, piece.first * kSize, call.world_size};
  if (!Meet(team, call, block, watch, meeting + 1)) return false;
  if constexpr (kToAll) {
    const AllTargets targets{call.outputs, piece.first * kSize, call.world_size};
    Carry<F>(team, sources, targets, piece.count, call.divisor);
  } else {
    Targets targets;
    targets.at[0] = call.outputs[block.rank] + piece.first * kSize;
    Carry<F>(team, sources, targets, piece.count, call.divisor);
  }
  NoteDirect(team, call, block, chunk, kToAll);
  if (!Meet(team, call, block, watch, meeting + 2)) return false;
  if (team->rank() == 0) block.progress->meetings = meeting + 2;
  return true;
}

}  // namespace lockstep::gpu
