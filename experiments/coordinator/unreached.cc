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

namespace {

// The servers' own record: each that leaves as planned says so as it ends.
bool AllWereRestarted(const std::vector<int>& left) {
  return !left.empty() && std::find(left.begin(), left.end(), 0) == left.end();
}

std::string WhyNot(const Fault& fault, int64_t last_step) {
  if (RestartsAllServers(fault)) return "not every server has left and come back";
  const bool late = last_step >= fault.at().step();
  if (late && StrikesMessage(fault.kind())) return "that step has no such message";
  if (late && StrikesPoint(fault.kind())) {
    return absl::StrCat("it was never at ", fault.point(), " from that step on");
  }
  return absl::StrCat("its last recorded step is ", last_step);
}

}  // namespace

std::vector<std::string> UnreachedFaults(const RunConfig& config) {
  const Experiment& experiment = config.experiment();
  std::vector<std::string> unreached;
  if (experiment.fault_size() == 0) return unreached;
  std::set<int> happened;
  std::map<std::string, int64_t> last_step;  // of each target
  std::vector<int> left;                     // [server]: times that it left as planned
  const auto read = [&](const std::string& role, int members) {
    for (int index = 0; index < members; ++index) {
      const auto records = ReadMember(config.record_dir(), role, index);
      if (!records.ok()) continue;
      int64_t& last = last_step[absl::StrCat(role, ":", index)];
      if (role == "server") left.push_back(0);
      for (const Record& record : *records) {
        if (role == "server" && record.ended().left()) ++left.back();
        if (record.has_injected()) happened.insert(record.injected().fault());
        if (record.has_step()) last = std::max(last, record.step().step());
        const bool own = record.has_applied() && record.applied().shard() == index;
        if (own) last = std::max(last, record.applied().version());
      }
    }
  };
  read("worker", config.world_size());
  read("server", config.servers());
  for (int i = 0; i < experiment.fault_size(); ++i) {
    const Fault& fault = experiment.fault(i);
    if (happened.contains(i) || (RestartsAllServers(fault) && AllWereRestarted(left))) continue;
    unreached.push_back(absl::StrCat(
        "fault[", i, "], ", Fault::Kind_Name(fault.kind()), " of ", fault.target(), " at step ",
        fault.at().step(), ", did not happen: ", WhyNot(fault, last_step[fault.target()])));
  }
  return unreached;
}

}  // namespace lockstep
