#include "allreduce/host/plans.h"

#include <utility>

#include "base/status.h"

namespace lockstep {

RankPart Renamed(RankPart part, const std::vector<int>& members) {
  const auto rename = [&](int32_t* peer) {
    if (*peer != kNone) *peer = members[static_cast<size_t>(*peer)];
  };
  for (Lane& lane : part.lanes) {
    for (Move& move : lane.moves) {
      rename(&move.recv_from);
      rename(&move.send_to);
    }
  }
  return part;
}

absl::StatusOr<const RankPart*> Plans::PartOf(ScheduleSpec spec) {
  const Key key = {spec.collective, spec.algorithm, spec.root, spec.channels};
  const auto known = parts_.find(key);
  if (known != parts_.end()) return &known->second;
  spec.world_size = world_size();
  ASSIGN_OR_RETURN(RankPart part, MakeRankPart(spec, rank_));
  return &parts_.emplace(key, Renamed(std::move(part), members_)).first->second;
}

}  // namespace lockstep
