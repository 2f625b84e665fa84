// claims.h: what a run file shows, sentence by sentence, each behind its own guard; the verdict
// puts them together. Bytes, replica state and loss stand on any host; speed does not.
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
  const VariantResult* control = nullptr;  // the `none` of the same number of workers
  SpeedComparison speed;
  int processes = 0;  // of the largest run: workers and servers
};

// The mathematics equals one process with the whole batch: replicas are promised equal, speeds
// compare.
bool IsSynchronous(const VariantResult& variant);

// REQUIRES: `run` outlives the result.
Evidence CollectEvidence(const RunFile& run);

std::string ReplicaClaim(const Evidence& evidence);  // "ps_sync and ring keep 4 identical replicas"
std::string ControlClaim(const Evidence& evidence);  // "none drifts 12 % apart"
std::string BusiestClaim(const Evidence& evidence);  // "busiest link per step: ..."
// "Counted bytes are within 0.40 % of ...", above 1 % "... differ ... by up to 6.1 %: ..."
std::string FormulaClaim(const Evidence& evidence);
std::string HashClaim(const Evidence& evidence);  // "Repeated blocks ... the same bits"
std::string FinishedClaim(
    const Evidence& evidence);  // "ps_sync and ring finished 60 steps"; never empty

// The claims above that hold on any host, most telling first; at least one.
std::vector<std::string> HeldClaims(const Evidence& evidence);

// S, communication share, busiest link, replicas: always these four.
std::vector<Fact> FourFacts(const Evidence& evidence);

}  // namespace lockstep
