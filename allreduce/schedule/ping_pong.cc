#include "allreduce/schedule/ping_pong.h"

#include "absl/strings/str_cat.h"
#include "allreduce/schedule/assemble.h"
#include "base/check.h"

namespace lockstep {

std::vector<Lane> PingPongLanes(const PingPongSpec& spec, int32_t rank) {
  CHECK(rank >= 0 && rank < spec.world_size) << "rank " << rank << " of " << spec.world_size;
  Lane lane;
  if (rank == 0) lane.moves = {{.send_to = 1, .in = 0}, {.recv_from = 1, .out = 0}};
  if (rank == 1) lane.moves = {{.recv_from = 0, .send_to = 0, .out = 0}};
  return {lane};
}

absl::StatusOr<Shape> PingPongShape(const PingPongSpec& spec) {
  if (spec.world_size < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("ping_pong: world_size ", spec.world_size, " must be at least 2"));
  }
  return Shape{.world_size = spec.world_size, .contributors = 1, .chunks = 1, .slots = 1};
}

absl::StatusOr<Schedule> MakePingPong(const PingPongSpec& spec) {
  return Assemble<PingPongSpec>({PingPongShape, PingPongLanes}, spec);
}

}  // namespace lockstep
