#include "allreduce/schedule/hierarchical.h"

#include "absl/strings/str_cat.h"
#include "allreduce/schedule/assemble.h"
#include "allreduce/schedule/fit.h"
#include "allreduce/schedule/ring_pieces.h"
#include "base/check.h"

namespace lockstep {
namespace {

std::vector<Move> MovesOf(const HierarchicalSpec& spec, int32_t rank, int32_t first) {
  const int32_t g = spec.group_size;
  const int32_t m = spec.world_size / g;
  const int32_t group = rank / g;
  const int32_t place = rank % g;
  const RingPlace within{.position = place,
                         .size = g,
                         .prev = group * g + (place + g - 1) % g,
                         .next = group * g + (place + 1) % g,
                         .first = first,
                         .count = static_cast<int16_t>(m)};
  const RingPlace across{.position = group,
                         .size = m,
                         .prev = (group + m - 1) % m * g + place,
                         .next = (group + 1) % m * g + place,
                         .first = first + place * m};
  std::vector<Move> moves;
  AddRingReduceScatter(within, &moves);
  AddRingAllReduce(across, &moves);
  AddRingAllGather(within, &moves);
  return moves;
}

}  // namespace

int32_t NaturalGroupSize(int32_t n) {
  int32_t size = 1;  // divisors come in pairs, and the smaller one is nearer the root
  for (int32_t g = 1; g <= n / g; ++g) {
    if (n % g == 0) size = g;
  }
  return size;
}

std::vector<Lane> HierarchicalLanes(const HierarchicalSpec& spec, int32_t rank) {
  CHECK(rank >= 0 && rank < spec.world_size) << "rank " << rank << " of " << spec.world_size;
  std::vector<Lane> lanes;
  lanes.reserve(static_cast<size_t>(spec.channels));
  for (int32_t channel = 0; channel < spec.channels; ++channel) {
    lanes.push_back({channel, MovesOf(spec, rank, channel * spec.world_size)});
  }
  return lanes;
}

absl::StatusOr<Shape> HierarchicalShape(const HierarchicalSpec& spec) {
  RETURN_IF_ERROR(CheckWorld("hierarchical", spec.world_size, spec.channels));
  if (spec.group_size < 1 || spec.world_size % spec.group_size != 0) {
    return absl::InvalidArgumentError(absl::StrCat("hierarchical: group_size ", spec.group_size,
                                                   " does not divide world_size ",
                                                   spec.world_size));
  }
  RETURN_IF_ERROR(CheckFits("hierarchical", int64_t{spec.world_size} * spec.channels,
                            spec.world_size / spec.group_size));
  return Shape{.world_size = spec.world_size,
               .contributors = spec.world_size,
               .chunks = spec.world_size * spec.channels,
               .slots = 2};  // one message being received, one being sent on
}

absl::StatusOr<Schedule> MakeHierarchical(const HierarchicalSpec& spec) {
  return Assemble<HierarchicalSpec>({HierarchicalShape, HierarchicalLanes}, spec);
}

}  // namespace lockstep
