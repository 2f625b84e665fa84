#include "experiments/analyse/devices.h"

#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace lockstep {
namespace {

std::string KindOf(const Started& started) {
  return absl::StrCat(started.device(), started.gpu().empty() ? "" : " ", started.gpu(), ", math ",
                      started.math(), ", ", started.math_library());
}

}  // namespace

std::string DevicesText(const std::vector<RunRecord>& runs) {
  std::map<std::string, std::set<std::string>> workers;  // [kind]
  for (const RunRecord& run : runs) {
    for (const MemberRecord& worker : run.workers) {
      if (!worker.started.device().empty()) workers[KindOf(worker.started)].insert(worker.name);
    }
  }
  if (workers.size() == 1) return workers.begin()->first;
  std::vector<std::string> kinds;
  kinds.reserve(workers.size());
  for (const auto& [kind, names] : workers) {
    kinds.push_back(absl::StrCat(kind, ": ", absl::StrJoin(names, ", ")));
  }
  return absl::StrJoin(kinds, "; ");
}

}  // namespace lockstep
