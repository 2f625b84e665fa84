#include "allreduce/schedule/ping_pong.h"

#include "absl/strings/str_cat.h"
#include "allreduce/schedule/assemble.h"
#include "base/check.h"

namespace lockstep {

std::vector<Lane> PingPongLanes(const PingPongSpec& spec, int32_t rank) {
  CHECK(rank >= 0 && rank < spec.world_size) << "rank " << rank << " of " << spec.world_size;
  const int32_t last = spec.messages - 1;
  Lane lane;
  for (int32_t chunk = 0; chunk < last && rank < 2; ++chunk) {
    lane.moves.push_back(rank == 0 ? Move{.send_to = 1, .in = chunk}
                                   : Move{.recv_from = 0, .out = chunk});
  }
  if (rank == 0) {
    lane.moves.push_back({.send_to = 1, .in = last});
    lane.moves.push_back({.recv_from = 1, .out = last});
  }
  if (rank == 1) lane.moves.push_back({.recv_from = 0, .send_to = 0, .out = last});
  return {lane};
}

absl::StatusOr<Shape> PingPongShape(const PingPongSpec& spec) {
  if (spec.world_size < 2 || spec.messages < 1) {
    return absl::InvalidArgumentError(absl::StrCat("ping_pong: world_size ", spec.world_size,
                                                   " must be at least 2 and messages ",
                                                   spec.messages, " at least 1"));
  }
  return Shape{.world_size = spec.world_size,
               .contributors = 1,
               .chunks = spec.messages,
               .slots = spec.messages};
}

absl::StatusOr<Schedule> MakePingPong(const PingPongSpec& spec) {
  return Assemble<PingPongSpec>({PingPongShape, PingPongLanes}, spec);
}

}  // namespace lockstep
