// ring_pieces.h: the two halves of every ring, for generators that put rings together: growing sums
// go round until each rank has one part complete, then the complete parts go round. A ring has as
// many parts as ranks; a part is `count` chunks and travels as one message. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "allreduce/schedule/schedule.h"

namespace lockstep {

// Where one rank stands on its ring.
struct RingPlace {
  int32_t position = 0;  // 0..size - 1: part `position` is the one it completes
  int32_t size = 1;
  int32_t prev = kNone;  // ranks
  int32_t next = kNone;
  int32_t first = 0;  // chunk at which part 0 begins
  int16_t count = 1;  // chunks of a part
};

// size - 1 messages each; a ring of one rank moves nothing. All-reduce is both, and what completes
// a part passes it on at once.
void AddRingReduceScatter(const RingPlace& ring, std::vector<Move>* moves);
void AddRingAllGather(const RingPlace& ring, std::vector<Move>* moves);
void AddRingAllReduce(const RingPlace& ring, std::vector<Move>* moves);

}  // namespace lockstep
