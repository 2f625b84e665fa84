// process.h: what a worker's and a server's main have in common: how they describe themselves, how
// they count, how they leave. Threads: any; no shared state.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "base/abort.h"
#include "base/member/member.h"
#include "base/member/signals.h"
#include "base/numeric/dtype.h"
#include "base/numeric/optimizer.h"
#include "base/traffic.h"
#include "proto/coordinator.pb.h"
#include "proto/record.pb.h"

namespace lockstep {

TrafficCount CountOf(const Traffic& traffic);

// Each update is one worker's push alone: ASYNC and BOUNDED.
bool AppliesAlone(const Ps& ps);

// SGD as the experiment asks for it in a run of `variant` with `workers`. Its divisor is that of
// the sum over all workers: their number for MEAN, 1 for SUM. With EXACT order it belongs to the
// exact sum's restoring division, and the update is then made with divisor 1. Where each gradient
// is applied on its own (none, asynchronous) the divisor is 1; asynchronous updates, of which n
// replace one mean, take the rate r/n unless the variant asks for the full one.
OptimizerOptions OptimizerFrom(const Experiment& experiment, const Variant& variant, int workers);

// REQUIRES: a type that gradients can travel in (experiments/spec refuses the others).
Dtype DtypeFrom(DtypeSpec spec);

// This process as the member `role` ("worker", "server") `index` of `run`.
Started DescribeProcess(const std::string& role, int index, const RunConfig& run);

struct Leaving {
  std::string name;          // "worker 2"
  absl::Status status;       // why it ends; OK: its work is done
  int64_t step = 0;          // last finished one; -1: not yet training
  Member* member = nullptr;  // null: never joined
};
// Says why on standard error, reports to the coordinator unless the coordinator ordered it, and
// returns the exit code.
int Leave(const Leaving& leaving, const Abort& abort, const SignalWatch& signals);

}  // namespace lockstep
