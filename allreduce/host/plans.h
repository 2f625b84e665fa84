// plans.h: this rank's parts of schedules, made once each, with the ranks of a group renamed to
// those of the link: so a group runs over the link of all, and connections, errors and logs keep
// one set of names. What a plan may be asked for is bounded by algorithms x roots. Errors: the
// generator's. Threads: one.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "allreduce/schedule/generate.h"

namespace lockstep {

// Every peer p of `part` becomes members[p].
RankPart Renamed(RankPart part, const std::vector<int>& members);

class Plans {
 public:
  // `rank` is an index into `members`, the link's ranks in the order of the group.
  Plans(std::vector<int> members, int rank) : members_(std::move(members)), rank_(rank) {}

  // The part stays where it is as long as this object. spec.world_size is set here.
  absl::StatusOr<const RankPart*> PartOf(ScheduleSpec spec);

  const std::vector<int>& members() const { return members_; }
  int rank() const { return rank_; }
  int world_size() const { return static_cast<int>(members_.size()); }

 private:
  // All of a spec that differs between the calls of one communicator.
  using Key = std::tuple<Collective, Algorithm, int32_t, int32_t>;

  const std::vector<int> members_;
  const int rank_;
  std::map<Key, RankPart> parts_;
};

}  // namespace lockstep
