#include "allreduce/host/measure.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "allreduce/schedule/ping_pong.h"
#include "base/status.h"

namespace lockstep {
namespace {

constexpr int kWarmUps = 5;  // connections, caches and the slots' memory get ready
constexpr int kSamples = 20;

absl::StatusOr<double> MedianRoundTripNs(const RankPart& part, const ExecuteCall& call,
                                         const Clock& clock, HostExecutor* executor) {
  std::vector<int64_t> times_ns;
  for (int i = 0; i < kWarmUps + kSamples; ++i) {
    const int64_t start_ns = clock.NowNs();
    RETURN_IF_ERROR(executor->Run(part, call));
    if (i >= kWarmUps) times_ns.push_back(clock.NowNs() - start_ns);
  }
  const auto middle = times_ns.begin() + kSamples / 2;
  std::nth_element(times_ns.begin(), middle, times_ns.end());
  return static_cast<double>(*middle);
}

}  // namespace

absl::StatusOr<LinkCost> MeasureLinkCost(const Link& link, const Clock& clock, ExecuteCall call,
                                         HostExecutor* executor) {
  const PingPongSpec spec{link.world_size()};
  ASSIGN_OR_RETURN(const Shape shape, PingPongShape(spec));
  const RankPart part{shape, PingPongLanes(spec, link.rank())};
  LinkCost cost;
  cost.link = link.name();
  cost.large_bytes = call.count;
  cost.samples = kSamples;
  std::vector<std::byte> data(static_cast<size_t>(call.count));
  call.data = data.data();
  call.count = 0;
  ASSIGN_OR_RETURN(const double empty_ns, MedianRoundTripNs(part, call, clock, executor));
  call.count = cost.large_bytes;
  ASSIGN_OR_RETURN(const double large_ns, MedianRoundTripNs(part, call, clock, executor));
  cost.alpha_ns = empty_ns / 2;
  const double slope_ns = std::max(0.0, large_ns - empty_ns) / 2;
  cost.beta_ns_per_byte = slope_ns / static_cast<double>(cost.large_bytes);
  return cost;
}

}  // namespace lockstep
