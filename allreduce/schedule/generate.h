// generate.h: the one place that maps a collective and an algorithm to their generator. Chunks,
// scratch, slots and bytes per rank: the generators' own headers. Errors: theirs, and
// InvalidArgument for a pair that has no generator, a setting that the pair doesn't use, or a rank
// out of range. Pure: no I/O, no threads, no clock.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "allreduce/schedule/algorithm.h"
#include "allreduce/schedule/schedule.h"

namespace lockstep {

struct ScheduleSpec {
  Collective collective = Collective::kAllReduce;
  Algorithm algorithm = Algorithm::kRing;
  int32_t world_size = 1;  // ranks that have no input included
  int32_t servers = 0;     // kPsExchange
  int32_t channels = 1;
  int32_t root = 0;        // kReduce, kBroadcast
  int32_t group_size = 0;  // kHierarchical: a divisor of world_size; 0: the one nearest its root
  Placement placement = Placement::kSpare;
};

// At height h, k chunks take 2h + k - 1 rounds of S/k each, and k messages on every connection: 8
// shorten the rounds without many messages, and the tiles of a long call pipeline as well.
inline constexpr int32_t kTreeChunksPerChannel = 8;   // double_tree: per tree
inline constexpr int32_t kChainChunksPerChannel = 4;  // keep a short chain busy; tiles do the rest

// The algorithms that a collective has, the usual one first. A barrier's recursive doubling is
// dissemination; a reduce or broadcast on a ring is a chain, the ring without its last link.
std::span<const Algorithm> AlgorithmsOf(Collective collective);

// Connections per pair of ranks and direction that the schedule uses: what its link must have as
// channels. kAuto: the most of any algorithm.
int32_t LinkChannelsOf(const ScheduleSpec& spec);

absl::StatusOr<Schedule> MakeSchedule(const ScheduleSpec& spec);

// One rank's part alone: what an executor needs, for worlds too big to hold as a whole.
struct RankPart : Shape {
  std::vector<Lane> lanes;
};
absl::StatusOr<RankPart> MakeRankPart(const ScheduleSpec& spec, int32_t rank);

}  // namespace lockstep
