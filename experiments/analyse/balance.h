// balance.h: how a model is spread over its parameter servers: the bytes each holds, by how much
// the fullest exceeds the mean, the tensor that no placement of whole tensors can balance, and the
// servers that are nearly idle beside it.
// Units: bytes of one worker's gradients, in the wire's type. Errors: those of Partition. Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/analyse/run_record.h"
#include "experiments/spec/size.h"
#include "ps_server/core/partition.h"

namespace lockstep {

// What SPLIT promises, and above which a placement is warned of.
inline constexpr double kBalancedMax = 1.1;  // largest over mean

struct BalanceInput {
  std::vector<TensorSize> tensors;  // in flat order
  int servers = 1;
  PsPlacement placement = PsPlacement::kSplit;
  int element_bytes = 4;
};
absl::StatusOr<BalanceResult> BalanceOf(const BalanceInput& input);

// Without tensors where the run names no model, or has no parameter servers.
BalanceInput BalanceInputOf(const RunConfig& config);

// [server]: its part of all bytes.
std::vector<double> SharesOf(const BalanceResult& balance);

// "in turn: servers hold 4.60, 0.125, 0.125 and 0.125 MB, largest over mean 3.70; linear0.weight
// has 90 % of the bytes, on server 0; nearly idle: servers 1, 2 and 3"
std::string BalanceText(const BalanceResult& balance);

// Fills in balance, with what the servers counted. REQUIRES: all runs are of this variant, at least
// one.
void AggregateBalance(const std::vector<const RunRecord*>& runs, VariantResult* result);

}  // namespace lockstep
