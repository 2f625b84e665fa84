// generate.h: the one place that maps an algorithm to its generator. Chunks, scratch, slots and
// bytes per rank: the generators' own headers. Errors: theirs, and InvalidArgument for servers
// where the algorithm has none or a rank out of range. Pure: no I/O, no threads, no clock.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "allreduce/schedule/algorithm.h"
#include "allreduce/schedule/schedule.h"

namespace lockstep {

struct ScheduleSpec {
  Algorithm algorithm = Algorithm::kRing;
  int32_t world_size = 1;  // servers included
  int32_t servers = 0;     // kPsExchange: the last so many ranks
  int32_t channels = 1;
};

// At height h, k chunks take 2h + k - 1 rounds of S/k each, and k messages on every connection: 8
// shorten the rounds without many messages, and the tiles of a long call pipeline as well.
inline constexpr int32_t kTreeChunksPerChannel = 8;

absl::StatusOr<Schedule> MakeSchedule(const ScheduleSpec& spec);

// One rank's part alone: what an executor needs, for worlds too big to hold as a whole.
struct RankPart : Shape {
  std::vector<Lane> lanes;
};
absl::StatusOr<RankPart> MakeRankPart(const ScheduleSpec& spec, int32_t rank);

}  // namespace lockstep
