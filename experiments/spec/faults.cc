#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "experiments/spec/checker.h"

namespace lockstep {
namespace {

// What is wrong with the fault's target; empty when nothing is.
std::string TargetObjection(const std::string& target, const std::vector<int>& workers) {
  constexpr char kWorker[] = "worker:";
  int worker = -1;
  const bool names_worker = absl::StartsWith(target, kWorker) &&
                            absl::SimpleAtoi(target.substr(sizeof(kWorker) - 1), &worker) &&
                            worker >= 0;
  if (!names_worker) {
    return absl::StrCat("\"", absl::CEscape(target),
                        "\" is not built yet; built today: worker:i, as worker:0");
  }
  const auto fewest = std::min_element(workers.begin(), workers.end());
  if (fewest == workers.end() || worker < *fewest) return "";
  return absl::StrCat("there is no ", target, " with ", *fewest,
                      " workers: the last is worker:", *fewest - 1);
}

void CheckFault(const Checker& check, const Fault& fault, const std::string& path) {
  const auto missing = [&](const char* name, const char* example) {
    const std::string field = JoinPath(path, name);
    if (check.places.Unreadable(field)) return;
    check.errors->push_back({.place = check.places.Find(path),
                             .message = absl::StrCat(field, " is missing; add ", example)});
  };
  if (!fault.has_kind()) missing("kind", "kind: NAN_GRADIENT");
  if (!fault.has_target()) missing("target", "target: \"worker:0\"");
  if (!fault.at().has_step()) missing("at.step", "at { step: 5 }");
  if (fault.kind() != Fault::NAN_GRADIENT) return;  // refused as a whole
  if (fault.has_target()) {
    const std::string objection = TargetObjection(fault.target(), UsableWorkers(check.experiment));
    if (!objection.empty()) check.Error(JoinPath(path, "target"), objection);
  }
  const int steps = check.experiment.train().steps();
  if (steps >= 1 && fault.at().step() > steps) {
    check.Error(JoinPath(path, "at.step"),
                absl::StrCat(fault.at().step(), " is behind the last step, ", steps));
  }
}

}  // namespace

void CheckFaults(const Checker& check) {
  for (int i = 0; i < check.experiment.fault_size(); ++i) {
    CheckFault(check, check.experiment.fault(i), IndexedPath("fault", i));
  }
}

}  // namespace lockstep
