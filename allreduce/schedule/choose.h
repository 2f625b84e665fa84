// choose.h: which algorithm an all-reduce of a given size should use, by the closed forms of a
// fitted cost model, and why. Candidates: every algorithm that needs no ranks but those that call
// and no more than one class of link. The same inputs give the same choice on every rank; of equal
// times that of the earlier name in kAlgorithms. Where ranks share cores the work of all of them
// may take longer than the longest path (work.h), so that there few messages win over short paths.
// Modelled with one channel: more of them change every candidate alike. Cost: microseconds to some
// milliseconds, growing with n. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "allreduce/schedule/cost.h"

namespace lockstep {

struct Candidate {
  Algorithm algorithm = Algorithm::kRing;
  int32_t channels = 1;
  double time_ns = 0;  // modelled
};

struct Choice {
  std::vector<Candidate> candidates;  // fastest first, at least one
  Algorithm algorithm() const { return candidates.front().algorithm; }
  std::string Why() const;  // "ring: 0.21 ms modelled; halving_doubling 0.3, tree 0.44"
};

// REQUIRES: world_size >= 1, bytes >= 0.
Choice ChooseAlgorithm(int32_t world_size, int64_t bytes, const CostModel& cost,
                       int64_t tile_bytes = kModelTileBytes);

// The least size in [from, to] from which `large` is not slower than `small`, or one where they
// meet again within a factor of two above it: tiles make steps. nullopt: none, or no closed form.
std::optional<int64_t> CrossingBytes(int32_t world_size, Algorithm small, Algorithm large,
                                     const CostModel& cost, int64_t from, int64_t to,
                                     int64_t tile_bytes = kModelTileBytes);

}  // namespace lockstep
