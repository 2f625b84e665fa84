// call.h: what a kernel is told, as plain data: one Call for all blocks of a launch, one Block for
// each (rank, channel) and, in trees, direction. Addresses are those that the rank's own device
// uses. Flags are 64-bit counters that only grow, on a line of their own, written by one side only:
// what a receiver waits for stands in its memory, what a sender waits for in the sender's, so all
// poll at home and write afar.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/numeric/anywhere.h"

namespace lockstep::gpu {

// kDirect: every rank sums one part of all inputs and writes it to all outputs. kPull: every rank
// reads all inputs itself. kPacket: every rank sends its input to all in words that carry their own
// flag.
enum class Kernel : uint8_t { kRing, kTree, kDoubleTree, kDirect, kPull, kPacket };
inline constexpr std::array kKernels = {Kernel::kRing,   Kernel::kTree, Kernel::kDoubleTree,
                                        Kernel::kDirect, Kernel::kPull, Kernel::kPacket};

inline constexpr int kRanksMax = 16;        // addresses of all ranks travel with a call
inline constexpr int64_t kLineBytes = 128;  // no two flags on one line of any cache
inline constexpr int64_t kPackBytes = 16;   // the widest load of a GPU's thread
inline constexpr int64_t kWordBytes = 4;    // payload of a packet; as many bytes of flag
inline constexpr int kChildrenMax = 2;
inline constexpr int kSlotsMin = 2;  // a ring of fused moves stands still with one

struct Piece {
  int64_t first = 0;  // elements
  int64_t count = 0;
};

// Which elements a chunk, and a tile of it, has. As allreduce/schedule/layout.h cuts, but in packs,
// so that every chunk begins at a multiple of 16 bytes; divided once, on the host.
struct Cut {
  int64_t elements = 0;
  int64_t pack_elements = 1;
  int64_t base_packs = 0;  // of every chunk
  int64_t longer = 0;      // the first so many chunks have one more
  int64_t tile_packs = 1;
  int64_t tiles = 1;  // at least one: a call without elements still meets

  LOCKSTEP_INLINE Piece Of(int32_t chunk, int64_t tile) const {
    const int64_t begin = chunk * base_packs + (chunk < longer ? chunk : longer);
    const int64_t end = begin + base_packs + (chunk < longer ? 1 : 0);
    const int64_t from = begin + tile * tile_packs < end ? begin + tile * tile_packs : end;
    const int64_t to = from + tile_packs < end ? from + tile_packs : end;
    const int64_t first = from * pack_elements < elements ? from * pack_elements : elements;
    const int64_t last = to * pack_elements < elements ? to * pack_elements : elements;
    return {first, last - first};
  }
  LOCKSTEP_INLINE Piece OfChunk(int32_t chunk) const {
    const Piece first = Of(chunk, 0);
    const Piece last = Of(chunk, tiles - 1);
    return {first.first, last.first + last.count - first.first};
  }
};

struct Call {
  const std::byte* inputs[kRanksMax] = {};  // [rank]: all, or the launch's own ranks alone
  std::byte* outputs[kRanksMax] = {};       // may be its input, except for kPull
  Cut cut;
  int32_t world_size = 1;
  int32_t divisor = 1;  // AVG: the number of ranks
  int32_t slots = kSlotsMin;
  int64_t slot_bytes = 0;
  uint32_t epoch = 1;        // kPacket: the flag of this call's words, never 0
  int64_t packet_words = 0;  // room for one call's words of one sender
  bool one_device = false;   // all ranks: flags need no wider scope than it
  uint64_t* stop = nullptr;  // nonzero: every wait ends; who gives up sets it
  int64_t timeout_ns = 0;    // of the whole launch
};

// The two ends of a connection: slots and `posted` lie with the receiver, `credit` with the sender.
struct Incoming {
  int32_t peer = -1;
  const std::byte* slots = nullptr;
  const uint64_t* posted = nullptr;
  uint64_t* credit = nullptr;
};
struct Outgoing {
  int32_t peer = -1;
  std::byte* slots = nullptr;
  uint64_t* posted = nullptr;
  const uint64_t* credit = nullptr;
};

// What a block has to remember from call to call; its own memory. After a failed call the ends of a
// connection disagree: the group needs new memory, filled with zeros.
struct Progress {
  uint64_t received[kChildrenMax] = {};
  uint64_t sent[kChildrenMax] = {};
  uint64_t meetings = 0;
};

// kUp: sums go to the parent; kDown: results come from it; kRoot: both in one.
enum class Role : uint8_t { kOnly, kUp, kDown, kRoot };

struct Block {
  int32_t rank = 0;
  int32_t chunk = 0;  // ring, direct: the first of its channel's n chunks
  Role role = Role::kOnly;
  int32_t incoming_count = 0;
  int32_t outgoing_count = 0;
  Incoming incoming[kChildrenMax];
  Outgoing outgoing[kChildrenMax];
  const std::byte* arrivals = nullptr;   // lines [sender]: how often it has come to a meeting
  uint64_t* arrival_at[kRanksMax] = {};  // [peer]: my line there
  const uint64_t* packets = nullptr;     // [sender][half][word]
  uint64_t* packets_at[kRanksMax] = {};  // [peer]: my part there, [half][word]
  Progress* progress = nullptr;
  uint64_t* report = nullptr;
};

// What a block says about its call, in one word, so that any of its threads may say it.
enum class Outcome : uint8_t { kNothing = 0, kDone = 1, kTimedOut = 2, kStopped = 3 };
enum class WaitFor : uint8_t { kMessage = 0, kSlot = 1, kMeeting = 2, kPacket = 3 };

struct Report {
  Outcome outcome = Outcome::kNothing;
  WaitFor wait_for = WaitFor::kMessage;  // the last two: when it did not get through
  int32_t peer = 0;

  LOCKSTEP_INLINE uint64_t Word() const {
    return static_cast<uint64_t>(outcome) | static_cast<uint64_t>(wait_for) << 8 |
           static_cast<uint64_t>(static_cast<uint32_t>(peer)) << 32;
  }
  static Report Of(uint64_t word) {
    return {static_cast<Outcome>(word & 0xff), static_cast<WaitFor>(word >> 8 & 0xff),
            static_cast<int32_t>(word >> 32)};
  }
};

// What a block has done with one tile of a chunk, for tests that compare it with the schedule:
// value = sources summed, in this order; then stored at the targets. kOwn is its rank's own input
// or output, other numbers are the peers at the other end.
struct Noted {
  static constexpr int32_t kOwn = -1;
  int64_t tile = 0;
  int32_t chunk = 0;
  int32_t sources = 0;
  int32_t targets = 0;
  int32_t source[kRanksMax] = {};
  int32_t target[kRanksMax] = {};
};

}  // namespace lockstep::gpu
