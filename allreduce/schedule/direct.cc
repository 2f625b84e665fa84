#include "allreduce/schedule/direct.h"

#include "absl/strings/str_cat.h"
#include "allreduce/schedule/assemble.h"
#include "allreduce/schedule/fit.h"
#include "allreduce/schedule/owner_exchange.h"
#include "base/check.h"

namespace lockstep {
namespace {

Ownership OwnershipOf(const DirectSpec& spec) {
  return {.contributors = spec.world_size,
          .owning_contributors = spec.world_size,
          .channels = spec.channels,
          .pushes = spec.collective != Collective::kAllGather,
          .answers = spec.collective != Collective::kReduceScatter};
}

}  // namespace

std::vector<Lane> DirectLanes(const DirectSpec& spec, int32_t rank) {
  CHECK(rank >= 0 && rank < spec.world_size) << "rank " << rank << " of " << spec.world_size;
  return LanesOf(OwnershipOf(spec), rank);
}

absl::StatusOr<Shape> DirectShape(const DirectSpec& spec) {
  RETURN_IF_ERROR(CheckWorld("direct", spec.world_size, spec.channels));
  RETURN_IF_ERROR(CheckFits("direct", int64_t{2} * spec.world_size * spec.channels));
  RETURN_IF_ERROR(CheckHalves("direct", spec.collective));
  return ShapeOf(OwnershipOf(spec));
}

absl::StatusOr<Schedule> MakeDirect(const DirectSpec& spec) {
  return Assemble<DirectSpec>({DirectShape, DirectLanes}, spec);
}

}  // namespace lockstep
