// ps_bench.h: the whole of `lockstep bench ps`: null steps of so many bytes, over workers x
// servers, ours and both roofs alive at once and taking turns in rounds of random order. Every
// parameter is checked after each of our turns. And the knee: from how many workers on more of them
// add less than a tenth, and what is used up there. Errors: those of job.h; InvalidArgument
// (options), FailedPrecondition (ps_rank is not built), ResourceExhausted (memory). Threads: one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/abort.h"
#include "base/clock.h"
#include "proto/bench.pb.h"

namespace lockstep {

// As typed.
struct PsBenchArguments {
  std::string sizes = {};  // empty: a few of each magnitude
  std::string workers = "1,2,4";
  std::string servers = "1,2";
  int rows = 0;  // of a table of so many bytes, in a step; 0: no table
  int row_floats = 64;
  int rounds = 7;
  int64_t timeout_ms = 30'000;
  std::string congestion = {};  // empty: the system's
  bool json = false;
  bool quick = false;
};
struct PsBenchOptions {
  std::vector<int64_t> bytes;
  std::vector<int> workers;  // ascending
  std::vector<int> servers;
  int rows = 0;
  int row_floats = 0;
  int rounds = 7;
  int64_t timeout_ms = 30'000;
  int64_t turn_ms = 100;  // about so long one contestant measures before the next has its turn
};
absl::StatusOr<PsBenchOptions> ReadPsOptions(const PsBenchArguments& arguments);

// All of the file but host, command, build, times of day.
absl::StatusOr<PsBenchFile> RunPsBench(const PsBenchOptions& options,
                                       const std::string& program_dir, const Clock& clock,
                                       const Abort& abort,
                                       const std::function<void(const std::string&)>& progress);

// From how many workers on more of them add less than a tenth, for each size and number of servers.
// REQUIRES: rows of one size and number of servers follow each other by workers. Pure.
std::vector<PsBenchKnee> KneesOf(const std::vector<PsBenchRow>& rows, int cores);

// The table, as it is printed. Pure.
std::string PsBenchText(const PsBenchFile& file);

}  // namespace lockstep
