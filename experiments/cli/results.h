// results.h: what a comparison leaves behind: experiment.textproto, run.json, steps.csv,
// servers.csv, trace.json, report.html. Each finished run is merged at once and its parameter
// copies are dropped as soon as nothing needs them, so the folder stays small. Threads: one.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/analyse/run_record.h"
#include "experiments/coordinator/run.h"
#include "proto/coordinator.pb.h"
#include "proto/record.pb.h"

namespace lockstep {

struct RunContext {
  std::string command;
  std::string started_at;
  double duration_s = 0;
  HostInfo host = {};
  absl::Status outcome;  // of the last run that was started
};

class Results {
 public:
  // `experiment` must outlive it.
  Results(std::string dir, const Experiment& experiment)
      : dir_(std::move(dir)), experiment_(experiment) {}

  // "ring", or "ring-n4": RunId of the run.
  std::string IdOf(const RunConfig& config) const;
  // blocks/2-ring-seed-1 below the results' folder; blocks are shown from 1.
  std::string RunDir(const RunConfig& config) const;

  // Reads the run's record files. Internal: the run ended well, but its records are not complete.
  absl::Status Add(const RunConfig& config, const RunOutcome& outcome);
  // Aggregates, decides the verdict and writes all files.
  absl::StatusOr<RunFile> Write(const RunContext& context);

 private:
  RunFile Describe(const RunContext& context) const;
  absl::Status AddVariants(RunFile* file) const;
  void AddFailures(const RunConfig& config, const RunOutcome& outcome, const RunRecord& record);
  std::string RecordFile(const RunConfig& config, const std::string& role, int index) const;
  absl::Status RemoveSnapshots(const RunConfig& config) const;
  absl::Status DropSnapshots() const;

  const std::string dir_;
  const Experiment& experiment_;
  std::vector<RunRecord> runs_;
  std::vector<FailureInfo> failures_;
  std::set<std::string> differed_;  // IdOf runs whose replicas were not the same at every probe
};

}  // namespace lockstep
