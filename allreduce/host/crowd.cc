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

constexpr int kWarmUps = 3;
constexpr int kSamples = 9;
constexpr int64_t kLargeBytes = int64_t{64} << 10;  // its bytes take longer than its messages

// Calls follow each other, so every rank is in them from the start.
absl::StatusOr<double> MedianNs(const Measurement& measurement, const RankPart& part,
                                const ExecuteCall& call) {
  HostSession& session = *measurement.session;
  std::vector<int64_t> times_ns;
  for (int i = 0; i < kWarmUps + kSamples; ++i) {
    const int64_t start_ns = session.clock().NowNs();
    RETURN_IF_ERROR(session.executor().Run(part, call));
    if (i >= kWarmUps) times_ns.push_back(session.clock().NowNs() - start_ns);
  }
  const auto middle = times_ns.begin() + kSamples / 2;
  std::nth_element(times_ns.begin(), middle, times_ns.end());
  return static_cast<double>(*middle);
}

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
  ASSIGN_OR_RETURN(const double empty_ns, MedianNs(measurement, part, empty));
  ExecuteCall large = call;
  large.count = std::min(kLargeBytes, call.tile_bytes);
  std::vector<std::byte> data(static_cast<size_t>(large.count));
  large.data = data.data();
  ASSIGN_OR_RETURN(const double large_ns, MedianNs(measurement, part, large));
  return WithCrowd(cost, spec, {empty_ns, large_ns, large.count, call.tile_bytes});
}

}  // namespace lockstep
