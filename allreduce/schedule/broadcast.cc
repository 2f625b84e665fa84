#include "allreduce/schedule/broadcast.h"

#include "absl/strings/str_cat.h"
#include "allreduce/schedule/assemble.h"
#include "base/check.h"

namespace lockstep {

std::vector<Lane> BroadcastLanes(const BroadcastSpec& spec, int32_t rank) {
  const int32_t n = spec.world_size;
  CHECK(rank >= 0 && rank < n) << "rank " << rank << " of " << n;
  Lane lane;
  if (n == 1) return {lane};
  const int32_t hop = (rank + n - spec.root) % n;  // distance from root along the chain
  const int32_t prev = hop == 0 ? kNone : (rank + n - 1) % n;
  const int32_t next = hop == n - 1 ? kNone : (rank + 1) % n;
  for (int32_t chunk = 0; chunk < spec.chunks; ++chunk) {
    lane.moves.push_back({.recv_from = prev,
                          .send_to = next,
                          .in = hop == 0 ? chunk : kNone,
                          .out = hop == 0 ? kNone : chunk});
  }
  return {lane};
}

absl::StatusOr<Shape> BroadcastShape(const BroadcastSpec& spec) {
  if (spec.world_size < 1 || spec.chunks < 1) {
    return absl::InvalidArgumentError(absl::StrCat("broadcast: world_size ", spec.world_size,
                                                   " and chunks ", spec.chunks,
                                                   " must both be at least 1"));
  }
  if (spec.root < 0 || spec.root >= spec.world_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("broadcast: root ", spec.root, " is no rank of 0..", spec.world_size - 1));
  }
  return Shape{.world_size = spec.world_size,
               .contributors = spec.world_size,
               .chunks = spec.chunks,
               .slots = 2};  // works with one; two let a chunk arrive while the last one leaves
}

absl::StatusOr<Schedule> MakeBroadcast(const BroadcastSpec& spec) {
  return Assemble<BroadcastSpec>({BroadcastShape, BroadcastLanes}, spec);
}

}  // namespace lockstep
