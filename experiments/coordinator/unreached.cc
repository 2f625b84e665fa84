#include "experiments/coordinator/unreached.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/member/fault_plan.h"
#include "base/member/record_writer.h"

namespace lockstep {

std::vector<std::string> UnreachedFaults(const RunConfig& config) {
  const Experiment& experiment = config.experiment();
  std::vector<std::string> unreached;
  if (experiment.fault_size() == 0) return unreached;
  std::set<int> happened;
  std::map<std::string, int64_t> last_step;  // of each target
  for (int rank = 0; rank < config.world_size(); ++rank) {
    const auto records = ReadMember(config.record_dir(), "worker", rank);
    if (!records.ok()) continue;
    int64_t& last = last_step[absl::StrCat("worker:", rank)];
    for (const Record& record : *records) {
      if (record.has_injected()) happened.insert(record.injected().fault());
      if (record.has_step()) last = std::max(last, record.step().step());
    }
  }
  for (int i = 0; i < experiment.fault_size(); ++i) {
    const Fault& fault = experiment.fault(i);
    if (happened.contains(i)) continue;
    const bool of_message =
        StrikesMessage(fault.kind()) && last_step[fault.target()] >= fault.at().step();
    unreached.push_back(absl::StrCat(
        "fault[", i, "], ", Fault::Kind_Name(fault.kind()), " of ", fault.target(), " at step ",
        fault.at().step(), ", did not happen: ",
        of_message ? "that step has no such message"
                   : absl::StrCat("its last recorded step is ", last_step[fault.target()])));
  }
  return unreached;
}

}  // namespace lockstep
