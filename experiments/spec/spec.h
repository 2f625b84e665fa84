// spec.h: a spec's text and the command line become an experiment that can run, or a list of all
// that is wrong with it. The stages: outline.h (text), bind.h (message), override.h, validate.h,
// defaults.h; plan.h then makes runs of it.
// A UTF-8 byte order mark before the text is skipped.
// Errors: all at once, in the order of the text, then of the command line; one a line in the
// Status: t.textproto:12:9: train.global_batch[0]: 130 samples can't be shared equally by 4
// workers; ... Pure: no I/O, no threads.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "experiments/spec/defaults.h"
#include "experiments/spec/find.h"
#include "experiments/spec/place.h"
#include "experiments/spec/plan.h"
#include "experiments/spec/size.h"
#include "proto/experiment.pb.h"

namespace lockstep {

// --quick: is everything in order? Not a measurement.
inline constexpr int kQuickBlocks = 1;
inline constexpr int kQuickStepsMax = 20;

inline constexpr size_t kErrorsShownMax = 20;

// Applied in this order; --quick leaves blocks alone where `blocks` is given.
struct SpecOptions {
  std::vector<std::string> set = {};  // path=value of each --set
  std::optional<std::string> blocks = {};
  std::vector<std::string> only = {};  // names of variants; empty: all
  bool quick = false;
};

struct LoadedSpec {
  Experiment experiment = {};  // overrides applied; defaults filled in when there are no errors
  std::string display_name;
  std::vector<SpecError> errors = {};
  std::vector<SpecError> notes = {};  // SpecText.note, settings that change nothing

  // InvalidArgument with the first kErrorsShownMax errors, one a line, and the number of the
  // others; OK when there are none.
  absl::Status status() const;
};

LoadedSpec LoadSpec(const SpecText& spec, const SpecOptions& options);

}  // namespace lockstep
