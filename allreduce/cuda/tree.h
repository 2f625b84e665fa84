// tree.h: the kernel's trees, one body for all: which ranks hang where is data (arena.h). Block =
// (rank, tree, direction): the one up adds (own + left) + right and sends the sum to the parent,
// the one down keeps the parent's result and hands it on; a root is both in one block. Tiles follow
// each other through the tree, up and down at once. Each byte is read and written once a block:
// 6n-4 elements for each element of the data. Moves: those of allreduce/schedule/tree_pieces.h,
// with a rank's moves of one chunk and direction made in one.
#pragma once

#include "allreduce/cuda/call.h"
#include "allreduce/cuda/carry.h"
#include "allreduce/cuda/lane.h"

namespace lockstep::gpu {

template <typename F, typename Team>
LOCKSTEP_ANYWHERE void RunTreeTile(Team* team, const Call& call, const Block& block, int64_t tile,
                                   const Lane<Team>& lane) {
  constexpr auto kSize = static_cast<int64_t>(sizeof(typename F::Stored));
  const Piece piece = call.cut.Of(block.chunk, tile);
  const std::byte* const input = call.inputs[block.rank] + piece.first * kSize;
  Targets targets;
  if (block.role != Role::kUp) targets.at[0] = call.outputs[block.rank] + piece.first * kSize;
  if (block.outgoing_count > 0) targets.at[1] = lane.Free(0);
  if (block.outgoing_count > 1) targets.at[2] = lane.Free(1);
  const int32_t divisor = block.role == Role::kRoot ? call.divisor : 1;
  if (block.role == Role::kDown) {
    Carry<F>(team, Sources<1>{{lane.Arrived(0)}}, targets, piece.count, divisor);
  } else if (block.incoming_count == 0) {
    Carry<F>(team, Sources<1>{{input}}, targets, piece.count, divisor);
  } else if (block.incoming_count == 1) {
    Carry<F>(team, Sources<2>{{input, lane.Arrived(0)}}, targets, piece.count, divisor);
  } else {
    Carry<F>(team, Sources<3>{{input, lane.Arrived(0), lane.Arrived(1)}}, targets, piece.count,
             divisor);
  }
}

template <typename Team>
LOCKSTEP_INLINE void NoteTreeTile(Team* team, const Block& block, int64_t tile) {
  if constexpr (Team::kNotes) {
    Noted noted{.tile = tile, .chunk = block.chunk};
    if (block.role != Role::kDown) noted.source[noted.sources++] = Noted::kOwn;
    for (int i = 0; i < block.incoming_count; ++i) {
      noted.source[noted.sources++] = block.incoming[i].peer;
    }
    if (block.role != Role::kUp) noted.target[noted.targets++] = Noted::kOwn;
    for (int i = 0; i < block.outgoing_count; ++i) {
      noted.target[noted.targets++] = block.outgoing[i].peer;
    }
    team->Note(noted);
  }
}

template <typename F, typename Team>
LOCKSTEP_ANYWHERE bool RunTree(Team* team, const Call& call, const Block& block) {
  Lane<Team> lane(team, call, block);
  const typename Lane<Team>::Ends ends{block.incoming_count, block.outgoing_count};
  for (int64_t tile = 0; tile < call.cut.tiles; ++tile) {
    if (!lane.Await(ends)) return false;
    RunTreeTile<F>(team, call, block, tile, lane);
    NoteTreeTile(team, block, tile);
    lane.Done(ends);
  }
  lane.Save();
  return true;
}

}  // namespace lockstep::gpu
