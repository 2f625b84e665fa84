// claims.h: what a run file shows, sentence by sentence, each behind its own guard; the verdict
// puts them together. Bytes, bits, replica state and loss stand on any host; speed does not.
// A claim whose guard fails is the empty string. Pure.
#pragma once

#include <string>
#include <vector>

#include "experiments/analyse/speed.h"
#include "proto/record.pb.h"

namespace lockstep {

struct Evidence {
  const RunFile& run;
  // Ranked variants with the same mathematics, at the largest number of workers.
  std::vector<const VariantResult*> compared;
  std::vector<const VariantResult*> asynchronous;  // of the same number of workers
  const VariantResult* control = nullptr;          // the `none` of it
  SpeedComparison speed;
  int processes = 0;  // of the largest run: workers and servers
};

// The mathematics equals one process with the whole batch: replicas are promised equal, speeds
// compare.
bool IsSynchronous(const VariantResult& variant);

// REQUIRES: `run` outlives the result.
Evidence CollectEvidence(const RunFile& run);

// "naive, ps_sync and ps_schedule end with the same bits", "all 5 synchronous ways end with one
// hash"
std::string SameBitsClaim(const Evidence& evidence);
std::string ReplicaClaim(const Evidence& evidence);  // "ps_sync and ring keep 4 identical replicas"
std::string PartingClaim(const Evidence& evidence);  // "none drifts 12 % apart, ps_async 0.81 %"
std::string BusiestClaim(const Evidence& evidence);  // "busiest link per step: ..."
// "Counted bytes are within 0.40 % of ...", above 1 % "... differ ... by up to 6.1 %: ..."
std::string FormulaClaim(const Evidence& evidence);
std::string HashClaim(const Evidence& evidence);  // "Repeated blocks ... the same bits"
// "ps_sync and ring finished 60 steps"; never empty
std::string FinishedClaim(const Evidence& evidence);

// Where ways with other mathematics stand beside each other: "Samples to a loss of 0.42, median of
// 5 seeds: synchronous ways 9600, ps_async 10400"; preliminary below 5 seeds, times only where the
// host shows them.
std::string LearningClaim(const Evidence& evidence);
// "Predicted by the alpha-beta model, not measured: ring 1.2 ms of exchange a step, ps_sync 2.3 ms"
std::string PredictionClaim(const Evidence& evidence);

// "chain went on after 1 loss within 0.08 s, no acknowledged update lost"
std::string RecoveryClaim(const Evidence& evidence);
// "bounded read nothing older than 2 of 2 allowed steps"
std::string BoundClaim(const Evidence& evidence);
// "first3 dropped 12 % of the pushes, most of worker 2"
std::string RejectedClaim(const Evidence& evidence);

// "ps, placed in turn: servers hold ...", where one holds over 1.1 times the mean
std::string BalanceClaim(const Evidence& evidence);

// The claims that hold on any host, most telling first; at least one.
std::vector<std::string> HeldClaims(const Evidence& evidence);

// "a, b and c", or "5 variants".
std::string NamesOf(const std::vector<const VariantResult*>& variants);
// Those with a busiest link, largest first; at most three, else the two ends.
std::vector<const VariantResult*> ByBusiest(const Evidence& evidence);
std::string BusiestOf(const VariantResult& variant);  // "ps_sync server 0 in"

}  // namespace lockstep
