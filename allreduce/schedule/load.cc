#include "allreduce/schedule/load.h"

#include "base/status.h"

namespace lockstep {

RankLoad LoadOf(const RankPart& part) {
  RankLoad load;
  const double chunks = part.chunks;
  for (const Lane& lane : part.lanes) {
    for (const Move& move : lane.moves) {
      const double share = move.count / chunks;
      if (move.send_to != kNone) {
        load.sent += share;
        ++load.sent_messages;
      }
      if (move.recv_from != kNone) {
        load.received += share;
        ++load.received_messages;
      }
    }
  }
  return load;
}

absl::StatusOr<std::vector<RankLoad>> LoadsOf(const ScheduleSpec& spec) {
  std::vector<RankLoad> loads;
  for (int32_t rank = 0; rank < spec.world_size; ++rank) {
    ASSIGN_OR_RETURN(const RankPart part, MakeRankPart(spec, rank));
    loads.push_back(LoadOf(part));
  }
  return loads;
}

}  // namespace lockstep
