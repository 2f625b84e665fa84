// star.h: all-reduce by reducing to rank 0 and broadcasting from it, each to and from every other
// rank directly; a tree of height 1. Addition: in rank order, ((g0+g1)+g2)+..., the bits of a
// parameter server. Chunks: one per channel. Rank 0 receives and sends (n-1)S bytes in n-1 messages
// per channel, the others S in one. Depth: 2 messages. Wins with two or three ranks and few bytes;
// it is here because it is what rank 0 as the only server does. Lanes: per channel one up and one
// down. Needs 1 slot per connection. Errors: InvalidArgument if a field is < 1 or channels >
// kChannelsMax. Pure: no I/O, no threads, no clock. Paper: Chan, Heimlich, Purkayastha, van de
// Geijn, Concurrency and Computation 19(13), 2007 (reduce-then-broadcast).
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "allreduce/schedule/schedule.h"

namespace lockstep {

struct StarSpec {
  int32_t world_size = 1;
  int32_t channels = 1;
};

absl::StatusOr<Shape> StarShape(const StarSpec& spec);
absl::StatusOr<Schedule> MakeStar(const StarSpec& spec);

// One rank's lanes alone. REQUIRES: spec valid, 0 <= rank < world_size.
std::vector<Lane> StarLanes(const StarSpec& spec, int32_t rank);

}  // namespace lockstep
