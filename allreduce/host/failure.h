// failure.h: how a failed collective is explained: each rank tells its own part, each puts all
// parts together. A report goes over the control path; the explanation is the same kind of error on
// every rank. Which error, first that applies: InvalidArgument (calls of one sequence number
// differ, or a header did not fit), Unavailable (a rank was lost), the code of an abort,
// DeadlineExceeded (late or stuck). Ranks are the link's, in calls of a group too: one link carries
// all its groups, and the failure of one ends them all. Pure: no I/O, no clock.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "allreduce/host/call.h"

namespace lockstep {

// One rank's part.
struct FailureReport {
  CallDescription call;
  int64_t elapsed_ms = 0;        // from its call to its failure
  std::vector<int> waiting_for;  // ranks
  std::vector<int> lost;         // ranks
  absl::Status cause;
  bool answers = false;  // failed only because another rank had: the cause is there
};

// At most kReportBytesMax (link.h): lists and text are cut.
std::string EncodeReport(const FailureReport& report);
// nullopt if the bytes are no report of a world of this size. Nothing in it is believed to be in
// range.
std::optional<FailureReport> DecodeReport(const std::string& bytes, int world_size);

// What one rank has gathered.
struct FailureView {
  int rank = 0;
  int64_t elapsed_ms = 0;  // until now, the gathering included
  int64_t sync_timeout_ms = 0;
  std::vector<std::optional<FailureReport>>
      reports;                    // [rank], its own included; nullopt: no answer
  std::vector<uint8_t> lost;      // [rank]: lost without a report
  std::vector<uint8_t> expected;  // [rank]: part of the call; empty: all are
};

// The error every call returns from now on. Names the operation, its sequence number, the elapsed
// wait, all missing and lost ranks and, where calls differ, each distinct call with the ranks that
// made it, followed by a line a rank (CASES R02), the first that differs marked with ">".
absl::Status Explain(const FailureView& view);

}  // namespace lockstep
