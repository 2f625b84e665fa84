#include "ps_server/wire/rules_from_spec.h"

#include "absl/strings/str_cat.h"
#include "base/member/process.h"

namespace lockstep {
namespace {

PsMode ModeFrom(Ps::Mode mode) {
  static_assert(static_cast<int>(PsMode::kSync) == Ps::SYNC);
  static_assert(static_cast<int>(PsMode::kAsync) == Ps::ASYNC);
  static_assert(static_cast<int>(PsMode::kBounded) == Ps::BOUNDED);
  static_assert(static_cast<int>(PsMode::kKOfN) == Ps::K_OF_N);
  return static_cast<PsMode>(mode);
}

}  // namespace

absl::StatusOr<PsRules> PsRulesFrom(const RunConfig& run) {
  const Experiment& experiment = run.experiment();
  const Ps& ps = run.variant().ps();
  const DtypeSpec wire = experiment.wire_dtype_size() > 0 ? experiment.wire_dtype(0) : F32;
  if (wire != F32 && wire != F16 && wire != BF16) {
    return absl::InvalidArgumentError(absl::StrCat(
        "wire_dtype ", DtypeSpec_Name(wire), ": a parameter server speaks F32, F16 and BF16"));
  }
  const PsMode mode = ModeFrom(ps.mode());
  // Only a sum over all workers has an order.
  const bool exact = experiment.reduction_order() == EXACT && mode == PsMode::kSync;
  return PsRules{.mode = mode,
                 .order = exact ? PsOrder::kExact : PsOrder::kRank,
                 .staleness = ps.staleness(),
                 .k = ps.k(),
                 .apply_late = ps.late() == Ps::APPLY,
                 .scale_by_staleness = ps.scale_by_staleness(),
                 .sum_only = ps.optimizer_on() == Ps::WORKER,
                 .steps = experiment.train().steps(),
                 .wire_dtype = DtypeFrom(wire),
                 .optimizer = OptimizerFrom(experiment, run.variant(), run.world_size())};
}

PsPlacement PsPlacementFrom(const RunConfig& run) {
  static_assert(static_cast<int>(PsPlacement::kSplit) == Ps::SPLIT);
  static_assert(static_cast<int>(PsPlacement::kInTurn) == Ps::IN_TURN);
  static_assert(static_cast<int>(PsPlacement::kBySize) == Ps::BY_SIZE);
  return static_cast<PsPlacement>(run.variant().ps().placement());
}

}  // namespace lockstep
