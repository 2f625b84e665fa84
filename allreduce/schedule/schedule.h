// schedule.h: a collective as plain data. Indices only: whoever runs it binds bytes and dtype.
// Generators are pure: no I/O, no threads, no clock.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep {

inline constexpr int32_t kNone = -1;
// A wait names its lane in 8 bits, and the lane waited for may be that of any channel.
inline constexpr int32_t kChannelsMax = 128;

// One move moves one value: v = ([message] + [in]) + [out if fold]; [out] <- v; [v -> send_to].
// Absent: kNone. It starts when its message is here, a slot to send_to is free and the awaited move
// is done. Whatever it reads is read before anything is written. What is folded is added in this
// order, so a move can sum in rank order: the message is that of the rank before, `in` the sum of
// those before that one, `out` the own part. `fold` without an `out` is malformed.
struct Move {
  int32_t recv_from = kNone;  // peer rank; the k-th receive on a connection takes its k-th send
  int32_t send_to = kNone;    // peer rank
  int32_t in = kNone;         // first local chunk read and folded in
  int32_t out = kNone;        // first local chunk written
  int16_t count = 1;          // contiguous chunks in this message
  int8_t wait_lane = kNone;   // same rank: the lane to wait for ...
  bool fold = false;          // what `out` holds is folded in last, before it is overwritten
  int32_t wait_move = 0;      // ... until it has finished this move of the same tile
  bool operator==(const Move&) const = default;
};
static_assert(sizeof(Move) == 24, "moves are copied to shared memory by the thousand");

// One sequential owner: a CPU thread, a CUDA thread block, a row of the animation.
struct Lane {
  int32_t channel = 0;  // connection = (sender, receiver, channel); one lane owns each end
  std::vector<Move> moves;
  bool operator==(const Lane&) const = default;
};

// What all ranks of a collective agree on.
struct Shape {
  int32_t world_size = 0;
  int32_t contributors = 0;  // ranks [0, contributors) hold input; parameter servers follow
  int32_t chunks = 0;        // data chunks per rank; ids from here up are scratch
  // Scratch chunk `chunks + k` holds values of data chunk k % chunks and nothing else, so its size
  // is that chunk's. Every tile starts with it empty, and one lane alone uses it, tile after tile:
  // room for one tile is enough.
  int32_t scratch = 0;
  int32_t slots = 2;  // credits per connection
};

// The data chunk whose values `chunk` may hold, and so the one that gives its size.
inline int32_t HomeOf(const Shape& shape, int32_t chunk) {
  return chunk < shape.chunks ? chunk : (chunk - shape.chunks) % shape.chunks;
}

struct Schedule : Shape {
  std::vector<std::vector<Lane>> ranks;  // [rank][lane]
};

}  // namespace lockstep
