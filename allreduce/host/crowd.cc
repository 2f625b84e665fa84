#include "allreduce/host/crowd.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "allreduce/host/plans.h"
#include "allreduce/schedule/work.h"
#include "base/status.h"

namespace lockstep {
namespace {

constexpr Repeats kRepeats = {.warm_ups = 3, .samples = 9};
constexpr int64_t kLargeBytes = int64_t{64} << 10;  // its bytes take longer than its messages

}  // namespace

absl::StatusOr<CostModel> MeasureCrowd(const Measurement& measurement, const ExecuteCall& call,
                                       CostModel cost) {
  ScheduleSpec spec;
  spec.algorithm = Algorithm::kRecursiveDoubling;
  spec.world_size = static_cast<int32_t>(measurement.members.size());
  ASSIGN_OR_RETURN(RankPart part, MakeRankPart(spec, measurement.rank));
  part = Renamed(std::move(part), measurement.members);
  ExecuteCall empty = call;
  empty.count = 0;
  ASSIGN_OR_RETURN(const double empty_ns, MedianRunNs(measurement.session, part, empty, kRepeats));
  ExecuteCall large = call;
  large.count = std::min(kLargeBytes, call.tile_bytes);
  std::vector<std::byte> data(static_cast<size_t>(large.count));
  large.data = data.data();
  ASSIGN_OR_RETURN(const double large_ns, MedianRunNs(measurement.session, part, large, kRepeats));
  return WithCrowd(cost, spec, {empty_ns, large_ns, large.count, call.tile_bytes});
}

}  // namespace lockstep
