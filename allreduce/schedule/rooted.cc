#include "allreduce/schedule/rooted.h"

#include "absl/strings/str_cat.h"
#include "allreduce/schedule/assemble.h"
#include "allreduce/schedule/fit.h"
#include "base/check.h"

namespace lockstep {

std::vector<Lane> RootedLanes(const RootedSpec& spec, int32_t rank) {
  CHECK(rank >= 0 && rank < spec.world_size) << "rank " << rank << " of " << spec.world_size;
  const TreePlace place = PlaceBelow(spec.form, spec.root, rank, spec.world_size);
  const auto lane_of = spec.collective == Collective::kReduce ? UpLane : DownLane;
  std::vector<Lane> lanes;
  lanes.reserve(static_cast<size_t>(spec.channels));
  for (int32_t channel = 0; channel < spec.channels; ++channel) {
    lanes.push_back(lane_of({.place = place,
                             .channel = channel,
                             .first = channel * spec.chunks_per_channel,
                             .chunks = spec.chunks_per_channel}));
  }
  return lanes;
}

absl::StatusOr<Shape> RootedShape(const RootedSpec& spec) {
  const char* const name = NameOf(spec.collective);
  if (spec.collective != Collective::kReduce && spec.collective != Collective::kBroadcast) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": has no root"));
  }
  RETURN_IF_ERROR(CheckWorld(name, spec.world_size, spec.channels));
  RETURN_IF_ERROR(CheckChunks(name, spec.channels, spec.chunks_per_channel));
  RETURN_IF_ERROR(CheckRoot(name, spec.root, spec.world_size));
  return Shape{.world_size = spec.world_size,
               .contributors = spec.world_size,
               .chunks = spec.channels * spec.chunks_per_channel,
               .slots = 2};  // works with one; two let a chunk arrive while the last one leaves
}

absl::StatusOr<Schedule> MakeRooted(const RootedSpec& spec) {
  return Assemble<RootedSpec>({RootedShape, RootedLanes}, spec);
}

}  // namespace lockstep
