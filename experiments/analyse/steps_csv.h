// steps_csv.h: steps.csv (RFC 4180, CRLF): a row a variant, block, seed, rank and step; settings
// first, measurements after, units in the column names. wait_us and hidden_us: anatomy.h. Times are
// microseconds; start_us counts from the run's first step. An empty cell: nothing measured it, or
// the loss is not finite. `state` is complete for rows of complete runs, else the run file's state
// (aborted, failed). Cells: csv.h. Errors: of the file, as errno. Threads: any.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "experiments/analyse/run_record.h"
#include "proto/record.pb.h"

namespace lockstep {

std::string StepsToCsv(const RunFile& file, const std::vector<RunRecord>& runs);
absl::Status WriteStepsCsv(const std::string& path, const RunFile& file,
                           const std::vector<RunRecord>& runs);

}  // namespace lockstep
