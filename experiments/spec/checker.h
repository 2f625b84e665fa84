// checker.h: what the checks behind conflicts.h share. Each looks at its own fields, says nothing
// of values that are wrong by themselves (validate.cc does), and adds all errors it finds. Pure: no
// I/O, no threads.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "experiments/spec/place.h"
#include "experiments/spec/rules.h"
#include "proto/experiment.pb.h"

namespace lockstep {

struct Checker {
  const Experiment& experiment;
  const Places& places;
  std::vector<SpecError>* errors;

  void Error(const std::string& path, const std::string& message) const {
    errors->push_back({.place = places.Find(path), .message = absl::StrCat(path, ": ", message)});
  }
  // The block at `path` lacks `field`; what of it could not be read is no second error.
  void Missing(const std::string& path, const char* field, const std::string& example) const {
    const std::string missing = JoinPath(path, field);
    if (places.Unreadable(missing)) return;
    errors->push_back({.place = places.Find(path),
                       .message = absl::StrCat(missing, " is missing; add ", example)});
  }
};

// The numbers of workers that are in range.
inline std::vector<int> UsableWorkers(const Experiment& experiment) {
  std::vector<int> usable;
  for (const int workers : experiment.workers()) {
    if (workers >= 1 && workers <= kWorkersMax) usable.push_back(workers);
  }
  return usable;
}

// Settings that only another way to synchronise reads.
void CheckModes(const Checker& check);
void CheckPsModes(const Checker& check);
void CheckFaults(const Checker& check);
void CheckDevices(const Checker& check);

}  // namespace lockstep
