// ring.h: the kernel's ring: block = (rank, channel), the moves of allreduce/schedule/ring.h for
// each tile. n-1 messages carry growing sums, n-1 more the complete parts; the move that completes
// a part keeps it, divides it and passes it on at once. 6n-4 elements read or written for each
// element of the data. Needs 2 slots.
#pragma once

#include "allreduce/cuda/call.h"
#include "allreduce/cuda/carry.h"
#include "allreduce/cuda/lane.h"

namespace lockstep::gpu {

struct RingMove {
  int32_t chunk = 0;
  bool receives = false;
  bool sends = false;
  bool folds = false;  // the own input
  bool keeps = false;  // in the output
};

LOCKSTEP_INLINE int32_t RingMoves(int32_t n) { return 2 * n - 1; }

LOCKSTEP_INLINE RingMove RingMoveAt(const Block& block, int32_t n, int32_t move) {
  const int32_t hop = move < n ? move + 1 : move - n + 1;  // the part of so many ranks before
  return {.chunk = block.chunk + (block.rank + 2 * n - hop) % n,
          .receives = move > 0,
          .sends = move < RingMoves(n) - 1,
          .folds = move < n,
          .keeps = move >= n - 1};
}

template <typename F, typename Team>
LOCKSTEP_ANYWHERE void RunRingMove(Team* team, const Call& call, const Block& block,
                                   const RingMove& move, int64_t tile, const Lane<Team>& lane) {
  constexpr auto kSize = static_cast<int64_t>(sizeof(typename F::Stored));
  const Piece piece = call.cut.Of(move.chunk, tile);
  const std::byte* const input = call.inputs[block.rank] + piece.first * kSize;
  Targets targets;
  if (move.keeps) targets.at[0] = call.outputs[block.rank] + piece.first * kSize;
  if (move.sends) targets.at[1] = lane.Free(0);
  const int32_t divisor = move.keeps ? call.divisor : 1;
  if (!move.folds) {
    Carry<F>(team, Sources<1>{{lane.Arrived(0)}}, targets, piece.count, divisor);
  } else if (!move.receives) {
    Carry<F>(team, Sources<1>{{input}}, targets, piece.count, divisor);
  } else {
    Carry<F>(team, Sources<2>{{lane.Arrived(0), input}}, targets, piece.count, divisor);
  }
}

template <typename Team>
LOCKSTEP_INLINE void NoteRingMove(Team* team, const Block& block, const RingMove& move,
                                  int64_t tile) {
  if constexpr (Team::kNotes) {
    Noted noted{.tile = tile, .chunk = move.chunk};
    if (move.receives) noted.source[noted.sources++] = block.incoming[0].peer;
    if (move.folds) noted.source[noted.sources++] = Noted::kOwn;
    if (move.keeps) noted.target[noted.targets++] = Noted::kOwn;
    if (move.sends) noted.target[noted.targets++] = block.outgoing[0].peer;
    team->Note(noted);
  }
}

template <typename F, typename Team>
LOCKSTEP_ANYWHERE bool RunRing(Team* team, const Call& call, const Block& block) {
  const int32_t n = call.world_size;
  Lane<Team> lane(team, call, block);
  for (int64_t tile = 0; tile < call.cut.tiles; ++tile) {
    for (int32_t i = 0; i < RingMoves(n); ++i) {
      const RingMove move = RingMoveAt(block, n, i);
      const typename Lane<Team>::Ends ends{move.receives ? 1 : 0, move.sends ? 1 : 0};
      if (!lane.Await(ends)) return false;
      RunRingMove<F>(team, call, block, move, tile, lane);
      NoteRingMove(team, block, move, tile);
      lane.Done(ends);
    }
  }
  lane.Save();
  return true;
}

}  // namespace lockstep::gpu
