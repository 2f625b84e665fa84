#include "allreduce/schedule/simulate.h"

#include "absl/strings/str_cat.h"
#include "allreduce/schedule/timed_machine.h"
#include "base/status.h"

namespace lockstep {
namespace {

absl::Status Check(const SimulationOptions& options) {
  const CostModel& cost = options.cost;
  if (options.bytes < 0 || options.element_bytes < 1 || options.tile_bytes < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("simulate: bytes ", options.bytes, " must be at least 0, element_bytes ",
                     options.element_bytes, " and tile_bytes ", options.tile_bytes, " at least 1"));
  }
  for (const double value :
       {cost.latency_ns, cost.overhead_ns, cost.beta_ns_per_byte, cost.gamma_ns_per_byte}) {
    if (value >= 0) continue;  // false for NaN
    return absl::InvalidArgumentError(absl::StrCat("simulate: a cost of ", value,
                                                   "; latency, overhead, beta and gamma must be "
                                                   "at least 0"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Simulation> Simulate(const ScheduleSpec& spec, const SimulationOptions& options) {
  RETURN_IF_ERROR(Check(options));
  ASSIGN_OR_RETURN(const RankPart first, MakeRankPart(spec, 0));
  return TimedMachine(first, options, [&](int32_t rank) { return MakeRankPart(spec, rank); }).Run();
}

absl::StatusOr<Simulation> Simulate(const Schedule& schedule, const SimulationOptions& options) {
  RETURN_IF_ERROR(Check(options));
  const auto part_of = [&](int32_t rank) -> absl::StatusOr<RankPart> {
    return RankPart{schedule, schedule.ranks[static_cast<size_t>(rank)]};
  };
  return TimedMachine(schedule, options, part_of).Run();
}

}  // namespace lockstep
