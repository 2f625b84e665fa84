// trace_check.h: reads a Chrome trace as a viewer would and says what is wrong with it.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::testing_trace {

struct TraceFacts {
  std::vector<std::string> processes;  // names
  std::vector<std::string> threads;    // "process / thread"
  int slices = 0;
  int arrows = 0;
  int pairs = 0;  // receives whose send is there too
  double first_us = 0;
};

// InvalidArgument lists: slices of a (pid, tid) that overlap without nesting, arrows without both
// ends or backwards in time, receives that end before their send starts, tracks without a name.
absl::StatusOr<TraceFacts> CheckTrace(const std::string& json);

}  // namespace lockstep::testing_trace
