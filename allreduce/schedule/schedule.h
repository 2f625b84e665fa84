// schedule.h: a collective as plain data. Indices only: whoever runs it binds bytes and dtype.
// Generators are pure: no I/O, no threads, no clock.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep {

inline constexpr int32_t kNone = -1;

// One move moves one value: v = [message] + [in]; [out] <- v; [v -> send_to]. Absent: kNone.
// It starts when its message is here, a slot to send_to is free and the awaited move is done.
struct Move {
  int32_t recv_from = kNone;  // peer rank; the k-th receive on a connection takes its k-th send
  int32_t send_to = kNone;    // peer rank
  int32_t in = kNone;         // first local chunk read and folded in
  int32_t out = kNone;        // first local chunk written
  int16_t count = 1;          // contiguous chunks in this message
  int16_t wait_lane = kNone;  // same rank: the lane to wait for ...
  int32_t wait_move = 0;      // ... until it has finished this move of the same tile
};
static_assert(sizeof(Move) == 24, "moves are copied to shared memory by the thousand");

// One sequential owner: a CPU thread, a CUDA thread block, a row of the animation.
struct Lane {
  int32_t channel = 0;  // connection = (sender, receiver, channel); one lane owns each end
  std::vector<Move> moves;
};

struct Schedule {
  int32_t world_size = 0;
  int32_t contributors = 0;  // ranks [0, contributors) hold input; parameter servers follow
  int32_t chunks = 0;        // data chunks per rank; ids from here up are scratch
  int32_t scratch = 0;
  int32_t slots = 2;                     // credits per connection
  std::vector<std::vector<Lane>> ranks;  // [rank][lane]
};

}  // namespace lockstep
