// dry_run.h: --dry-run: what a comparison would start, send and write, in words. By formula alone:
// nothing is measured, so the time is a range under assumptions that it names.
// Errors: InvalidArgument for a way without a byte formula. Pure.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/socket.h"
#include "proto/experiment.pb.h"

namespace lockstep {

struct DryRun {
  std::string out;  // folder; empty: runs/<UTC time>-<name>
  Endpoint listen;
  int cores = 1;
};
// REQUIRES: valid, defaults filled in.
absl::StatusOr<std::string> DescribePlan(const Experiment& experiment, const DryRun& dry_run);

}  // namespace lockstep
