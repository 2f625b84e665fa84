// direct.h: the two-shot all-reduce: every rank owns one part, sums everybody's input of it in rank
// order, ((g0+g1)+g2)+..., and sends the result to all; and its two halves alone, reduce-scatter
// (rank r ends with part r) and all-gather (rank r brings part r). Chunks: n per channel; part r is
// chunk r of each channel. A rank sends and receives 2(n-1)/n S bytes in 2(n-1) messages per
// channel, a half alone as much less. Depth: 2 messages (a half: 1), which is where it beats the
// ring; its n(n-1) connections are where it loses: wins on one host, with few ranks, or with a full
// crossbar. Lanes, order, scratch and slots: owner_exchange.h. Needs 1 slot per connection. Errors:
// InvalidArgument if a field is < 1, channels > kChannelsMax, or another collective is asked. Pure:
// no I/O, no threads, no clock. Paper: Chan, Heimlich, Purkayastha, van de Geijn, Concurrency and
// Computation 19(13), 2007.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "allreduce/schedule/algorithm.h"
#include "allreduce/schedule/schedule.h"

namespace lockstep {

struct DirectSpec {
  int32_t world_size = 1;
  int32_t channels = 1;
  Collective collective = Collective::kAllReduce;  // or kReduceScatter, kAllGather
};

absl::StatusOr<Shape> DirectShape(const DirectSpec& spec);
absl::StatusOr<Schedule> MakeDirect(const DirectSpec& spec);

// One rank's lanes alone. REQUIRES: spec valid, 0 <= rank < world_size.
std::vector<Lane> DirectLanes(const DirectSpec& spec, int32_t rank);

}  // namespace lockstep
