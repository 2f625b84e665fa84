// step_record.h: a rank's set-up and steps as the messages of proto/record.proto; which steps are
// traced. Pure, but for the clock of FoldNsPerByte.
#pragma once

#include <cstdint>
#include <vector>

#include "allreduce/host/message_log.h"
#include "base/clock.h"
#include "base/traffic.h"
#include "proto/coordinator.pb.h"
#include "proto/record.pb.h"
#include "worker/sync/step_exchange.h"
#include "worker/sync/synchronizer.h"

namespace lockstep {

// gamma: what adding one byte of f32 costs, in memory, on this thread; the best of a few.
double FoldNsPerByte(const Clock& clock);

SetUp SetUpRecord(const Synchronizer::SetUpFacts& facts, const Traffic& traffic,
                  const Clock& clock);
void AddSpans(const std::vector<CallSpan>& spans, StepDone* done);
void AddMessages(const std::vector<LoggedMessage>& messages, StepDone* done);

// Steps [from, until): the first trace.steps ones after the warm-up, in block 0 only.
struct TracedSteps {
  int64_t from = 0;
  int64_t until = 0;
};
TracedSteps TracedStepsOf(const RunConfig& run);

}  // namespace lockstep
