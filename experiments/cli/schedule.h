// schedule.h: `lockstep schedule show | verify`: a collective as data, from its generator or from a
// text that somebody wrote. Reads the file that is named, nothing else. Errors: bad usage and texts
// that are no schedules (schedule_source.h).
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "experiments/cli/schedule_source.h"

namespace lockstep {

struct ScheduleAnswer {
  std::string text;  // for standard output, with its last newline
  int exit_code = 0;
};

struct ShowOptions {
  int64_t elements = 0;  // of the data, to show how they are cut into chunks; 0: not asked
  bool as_text = false;  // the text form alone
};
// The rounds (schedule_rounds.h), then which additions, messages and bytes they come to. A schedule
// that is wrong is shown until it stands still, with exit code 1.
absl::StatusOr<ScheduleAnswer> ShowSchedule(const ScheduleArguments& arguments,
                                            const ShowOptions& options);

// "right" with counts, or the first wrong move: where it stands in the text, what is wrong, what is
// there and what should be; exit code 1 then.
absl::StatusOr<ScheduleAnswer> VerifySchedule(const ScheduleArguments& arguments);

}  // namespace lockstep
