// rules.h: how servers treat pushes: when they apply, in what arithmetic, with which optimizer.
// Workers and servers must have the same rules. Pure.
//   SYNC      one update a step, made of every worker's push
//   ASYNC     each push is an update of its own, at once
//   BOUNDED   as ASYNC, but the reply that lets a worker begin clock c waits until every worker has
//             finished clock c - staleness - 1 (Ho et al., NIPS 2013; clock c is its step c + 1)
//   K_OF_N    a shard's updates end rounds. An update is made of the first k pushes of its round
//             (Chen et al., Revisiting Distributed Synchronous SGD, 2016); what comes later is
//             dropped, or applied at once as an update of its own, with the weight that it would
//             have had among k, and ends no round. A push is of the least round of any shard that
//             its worker's parameters came from, the same at all shards, so that they agree on
//             which pushes a round may be made of without having to talk
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "base/numeric/dtype.h"
#include "base/numeric/optimizer.h"

namespace lockstep {

enum class PsMode : uint8_t { kSync = 0, kAsync = 1, kBounded = 2, kKOfN = 3 };
enum class PsOrder : uint8_t { kRank = 0, kExact = 1 };

struct PsRules {
  PsMode mode = PsMode::kSync;
  PsOrder order = PsOrder::kRank;   // kExact: SYNC only; K_OF_N sums in rank order
  int32_t staleness = 0;            // BOUNDED: clocks
  int32_t k = 0;                    // K_OF_N: 1..world_size
  bool apply_late = false;          // K_OF_N: false: a late push is dropped
  bool scale_by_staleness = false;  // ASYNC, BOUNDED: the rate is divided by 1 + update staleness
  bool sum_only = false;            // SYNC: workers have the optimizer; a reply is the sum, divided
  int64_t steps =
      0;  // of each worker's run; who has made so many is waited for by nobody; 0: no end
  Dtype wire_dtype = Dtype::kF32;  // of gradients and parameters in frames: f32, f16, bf16
  OptimizerOptions optimizer;      // divisor: world_size for MEAN; 1 for SUM, ASYNC and BOUNDED

  bool operator==(const PsRules&) const = default;
};

// Each update is one worker's push alone: ASYNC and BOUNDED.
constexpr bool AppliesAlone(PsMode mode) {
  return mode == PsMode::kAsync || mode == PsMode::kBounded;
}

// Floats of optimizer state that a server needs for a parameter.
inline int64_t SlotsOf(const PsRules& rules) {
  const bool plain =
      rules.optimizer.kind == OptimizerKind::kSgd && rules.optimizer.momentum == 0.0F;
  return rules.sum_only || plain ? 0 : StateSlots(rules.optimizer.kind);
}

// Whether these rules make sense together. Errors: InvalidArgument, naming the options of a spec
// that conflict.
absl::Status CheckRules(const PsRules& rules, int32_t world_size);
// "bounded, staleness 2, sums in rank order, f32, sgd learning_rate 0.1 ...": every field.
std::string Describe(const PsRules& rules);
uint64_t FingerprintOf(const PsRules& rules);

}  // namespace lockstep
