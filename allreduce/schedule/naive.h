// naive.h: all-reduce by telling everybody everything: each rank sends its input to every other
// rank and sums all inputs itself, in rank order ((g0+g1)+g2)+..., whatever the order of arrival,
// so that every rank gets the same bits. Chunks: one per channel, and if n > 2 as much scratch for
// the sum of the ranks before one's own. A rank sends and receives (n-1)S bytes in n-1 messages
// per channel and starts with the peer after itself, so no peer is everybody's first. Depth: 1
// message. Wins where latency is all: few ranks, few bytes. Lanes: per channel one that sends and
// one that sums; the sum takes the input's place only after the last send of it. Needs 1 slot per
// connection: a tile is one message on each, and no receive waits for a slot. Errors:
// InvalidArgument if world_size or channels < 1, or channels > kChannelsMax. Pure: no I/O, no
// threads, no clock.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "allreduce/schedule/schedule.h"

namespace lockstep {

struct NaiveSpec {
  int32_t world_size = 1;
  int32_t channels = 1;
};

absl::StatusOr<Shape> NaiveShape(const NaiveSpec& spec);
absl::StatusOr<Schedule> MakeNaive(const NaiveSpec& spec);

// One rank's lanes alone. REQUIRES: spec valid, 0 <= rank < world_size.
std::vector<Lane> NaiveLanes(const NaiveSpec& spec, int32_t rank);

}  // namespace lockstep
