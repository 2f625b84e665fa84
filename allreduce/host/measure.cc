#include "allreduce/host/measure.h"

#include <algorithm>
#include <cstddef>

#include "allreduce/host/plans.h"
#include "allreduce/schedule/ping_pong.h"
#include "base/median.h"
#include "base/numeric/fold.h"
#include "base/status.h"

namespace lockstep {
namespace {

constexpr int kWarmUps = 5;  // connections, caches and the slots' memory get ready
constexpr int kSamples = 20;
constexpr int32_t kBurstMessages = 32;  // so that the burst's own round trip counts little
constexpr int64_t kFoldedElements = int64_t{16} * 1024;  // in a cache, as a tile in a collective

// Of `messages` messages there and one back.
absl::StatusOr<double> MedianRoundTripNs(const Measurement& measurement, int32_t messages,
                                         const ExecuteCall& call) {
  const PingPongSpec spec{static_cast<int32_t>(measurement.members.size()), messages};
  ASSIGN_OR_RETURN(const Shape shape, PingPongShape(spec));
  const RankPart part =
      Renamed({shape, PingPongLanes(spec, measurement.rank)}, measurement.members);
  return MedianRunNs(measurement.session, part, call, {kWarmUps, kSamples});
}

double FoldNsPerByte(const Clock& clock) {
  const std::vector<float> source(kFoldedElements, 1.0F);
  std::vector<float> target(kFoldedElements, 1.0F);
  std::vector<int64_t> times_ns;
  for (int i = 0; i < kWarmUps + kSamples; ++i) {
    const int64_t start_ns = clock.NowNs();
    Fold(Dtype::kF32, ReduceOp::kSum, source.data(), target.data(), kFoldedElements);
    if (i >= kWarmUps) times_ns.push_back(clock.NowNs() - start_ns);
  }
  return MedianOf(times_ns) / static_cast<double>(kFoldedElements * SizeOf(Dtype::kF32));
}

}  // namespace

absl::StatusOr<double> MedianRunNs(HostSession* session, const RankPart& part,
                                   const ExecuteCall& call, const Repeats& repeats) {
  std::vector<int64_t> times_ns;
  for (int i = 0; i < repeats.warm_ups + repeats.samples; ++i) {
    const int64_t start_ns = session->clock().NowNs();
    RETURN_IF_ERROR(session->executor().Run(part, call));
    if (i >= repeats.warm_ups) times_ns.push_back(session->clock().NowNs() - start_ns);
  }
  return MedianOf(times_ns);
}

absl::StatusOr<LinkCost> MeasureLinkCost(const Measurement& measurement, const ExecuteCall& call) {
  LinkCost cost;
  cost.link = measurement.session->link().name();
  cost.large_bytes = call.count;
  cost.samples = kSamples;
  std::vector<std::byte> data(static_cast<size_t>(call.count));
  ExecuteCall large = call;
  large.data = data.data();
  ExecuteCall empty = large;
  empty.count = 0;
  ASSIGN_OR_RETURN(const double empty_ns, MedianRoundTripNs(measurement, 1, empty));
  ASSIGN_OR_RETURN(const double large_ns, MedianRoundTripNs(measurement, 1, large));
  cost.alpha_ns = empty_ns / 2;
  const double slope_ns = std::max(0.0, large_ns - empty_ns) / 2;
  cost.beta_ns_per_byte = slope_ns / static_cast<double>(cost.large_bytes);
  return cost;
}

absl::StatusOr<CostModel> MeasureCostModel(const Measurement& measurement,
                                           const ExecuteCall& call) {
  ASSIGN_OR_RETURN(const LinkCost link, MeasureLinkCost(measurement, call));
  ExecuteCall empty = call;
  empty.count = 0;
  ASSIGN_OR_RETURN(const double burst_ns, MedianRoundTripNs(measurement, kBurstMessages, empty));
  const double each_ns = (burst_ns - 2 * link.alpha_ns) / (kBurstMessages - 1);
  CostModel cost;
  cost.overhead_ns = std::clamp(each_ns, 0.0, link.alpha_ns);
  cost.latency_ns = link.alpha_ns - cost.overhead_ns;
  cost.beta_ns_per_byte = link.beta_ns_per_byte;
  if (measurement.rank == 0) cost.gamma_ns_per_byte = FoldNsPerByte(measurement.session->clock());
  return cost;
}

}  // namespace lockstep
