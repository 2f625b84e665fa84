// facts.h: the four numbers that stand beside every headline: S and n, the exchange's share of the
// step, the busiest link, the state of the replicas. "not measured" in place of what is missing.
// Pure.
#pragma once

#include <vector>

#include "experiments/analyse/claims.h"

namespace lockstep {

// Always these four, in this order.
std::vector<Fact> FourFacts(const Evidence& evidence);

}  // namespace lockstep
