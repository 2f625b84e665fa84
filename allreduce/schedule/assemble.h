// assemble.h: a whole schedule, or one rank's part of it, from a generator's shape and lanes. Every
// generator has the same two functions: XxxShape checks the spec and says what all ranks agree on,
// XxxLanes gives one rank's lanes and REQUIRES a spec that XxxShape accepts. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "allreduce/schedule/schedule.h"
#include "base/status.h"

namespace lockstep {

template <typename Spec>
struct Generator {
  absl::StatusOr<Shape> (*shape)(const Spec& spec);
  std::vector<Lane> (*lanes)(const Spec& spec, int32_t rank);
};

template <typename Spec>
absl::StatusOr<Schedule> Assemble(const Generator<Spec>& generator, const Spec& spec) {
  ASSIGN_OR_RETURN(const Shape shape, generator.shape(spec));
  Schedule schedule{shape, {}};
  for (int32_t rank = 0; rank < shape.world_size; ++rank) {
    schedule.ranks.push_back(generator.lanes(spec, rank));
  }
  return schedule;
}

}  // namespace lockstep
