// schedule_walk.h: what tests ask of a schedule without running it: what each rank sends and
// receives, how deep its messages depend on each other, and how it looks tile after tile. Pure.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <ostream>
#include <vector>

#include "allreduce/schedule/schedule.h"

namespace lockstep {

// Chunks that a rank sends and receives.
struct Share {
  int64_t sent = 0;
  int64_t received = 0;
  bool operator==(const Share&) const = default;
};
inline void PrintTo(const Share& share, std::ostream* out) {
  *out << "sent " << share.sent << ", received " << share.received;
}

inline Share ShareOf(const std::vector<Lane>& lanes) {
  Share share;
  for (const Lane& lane : lanes) {
    for (const Move& move : lane.moves) {
      share.sent += move.send_to == kNone ? 0 : move.count;
      share.received += move.recv_from == kNone ? 0 : move.count;
    }
  }
  return share;
}

inline int64_t MessagesSentBy(const std::vector<Lane>& lanes) {
  int64_t messages = 0;
  for (const Lane& lane : lanes) {
    for (const Move& move : lane.moves) messages += move.send_to == kNone ? 0 : 1;
  }
  return messages;
}

// The program once for each tile, as an executor runs it, as one schedule: a lane goes on to its
// next tile while others are at the last one. REQUIRES: an all-reduce or rooted collective; parts
// of ranks are not where the tiles put them.
inline Schedule Tiled(const Schedule& schedule, int32_t tiles) {
  Schedule tiled = schedule;
  tiled.chunks *= tiles;
  tiled.scratch = schedule.scratch == 0 ? 0 : tiled.chunks;
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    for (size_t lane = 0; lane < schedule.ranks[rank].size(); ++lane) {
      std::vector<Move>& moves = tiled.ranks[rank][lane].moves;
      moves.clear();
      for (int32_t tile = 0; tile < tiles; ++tile) {
        for (Move move : schedule.ranks[rank][lane].moves) {
          const auto shift = [&](int32_t* chunk) {
            if (*chunk == kNone) return;
            if (*chunk >= schedule.chunks) *chunk += tiled.chunks - schedule.chunks;
            *chunk += tile * schedule.chunks;
          };
          shift(&move.in);
          shift(&move.out);
          if (move.wait_lane != kNone) {
            const auto& awaited = schedule.ranks[rank][static_cast<size_t>(move.wait_lane)].moves;
            move.wait_move += tile * static_cast<int32_t>(awaited.size());
          }
          moves.push_back(move);
        }
      }
    }
  }
  return tiled;
}

// Longest chain of dependent messages: a message is one deeper than the deepest that its lane has
// received before, or that a lane has which it waited for.
inline int64_t DepthOf(const Schedule& schedule) {
  std::vector<std::vector<std::vector<int64_t>>> depths(schedule.ranks.size());  // after each move
  std::map<std::array<int32_t, 3>, std::deque<int64_t>> wires;
  int64_t deepest = 0;
  const auto step = [&](int32_t rank, size_t lane_index) {
    auto& mine = depths[static_cast<size_t>(rank)];
    const Lane& lane = schedule.ranks[static_cast<size_t>(rank)][lane_index];
    std::vector<int64_t>& after = mine[lane_index];
    if (after.size() == lane.moves.size()) return false;
    const Move& move = lane.moves[after.size()];
    int64_t depth = after.empty() ? 0 : after.back();
    if (move.wait_lane != kNone) {
      const auto& awaited = mine[static_cast<size_t>(move.wait_lane)];
      if (awaited.size() <= static_cast<size_t>(move.wait_move)) return false;
      depth = std::max(depth, awaited[static_cast<size_t>(move.wait_move)]);
    }
    if (move.recv_from != kNone) {
      auto& wire = wires[{move.recv_from, rank, lane.channel}];
      if (wire.empty()) return false;
      depth = std::max(depth, wire.front());
      wire.pop_front();
    }
    if (move.send_to != kNone) wires[{rank, move.send_to, lane.channel}].push_back(depth + 1);
    after.push_back(depth);
    deepest = std::max(deepest, depth);
    return true;
  };
  for (size_t r = 0; r < depths.size(); ++r) depths[r].resize(schedule.ranks[r].size());
  for (bool moved = true; moved;) {
    moved = false;
    for (int32_t rank = 0; rank < schedule.world_size; ++rank) {
      for (size_t lane = 0; lane < depths[static_cast<size_t>(rank)].size(); ++lane) {
        while (step(rank, lane)) moved = true;
      }
    }
  }
  return deepest;
}

}  // namespace lockstep
