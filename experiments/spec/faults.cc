#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/member/fault_plan.h"
#include "experiments/spec/checker.h"
#include "ps_server/core/crash_point.h"

namespace lockstep {
namespace {

constexpr char kWorker[] = "worker";
constexpr char kServer[] = "server";

// Whom a fault strikes.
struct Target {
  const char* role = nullptr;  // null: nobody that can be struck today
  int index = -1;

  bool server() const { return role == kServer; }
};

Target TargetOf(const std::string& text) {
  for (const char* role : {kWorker, kServer}) {
    const std::string prefix = absl::StrCat(role, ":");
    int index = -1;
    if (absl::StartsWith(text, prefix) && absl::SimpleAtoi(text.substr(prefix.size()), &index) &&
        index >= 0) {
      return {role, index};
    }
  }
  return {};
}

// What is wrong with the number of a target of which there are `counts` in the experiment's runs;
// empty when nothing is.
std::string NumberObjection(const Target& target, const std::vector<int>& counts) {
  const auto fewest = std::min_element(counts.begin(), counts.end());
  if (fewest == counts.end() || target.index < *fewest) return "";
  return absl::StrCat("there is no ", target.role, ":", target.index, " with ", *fewest, " ",
                      target.role, *fewest == 1 ? "" : "s", ": the last is ", target.role, ":",
                      *fewest - 1);
}

// Servers of each variant that has parameter servers.
std::vector<int> ServerCounts(const Experiment& experiment) {
  std::vector<int> counts;
  for (const Variant& variant : experiment.variant()) {
    if (variant.has_ps()) {
      counts.push_back(variant.ps().servers_size() > 0 ? variant.ps().servers(0) : 1);
    }
  }
  return counts;
}

std::string PointNames() {
  std::vector<std::string> names;
  names.reserve(kCrashPoints.size());
  for (const CrashPointName& row : kCrashPoints) names.emplace_back(row.name);
  return absl::StrJoin(names, ", ");
}

bool ChangesWorkers(Fault::Kind kind) { return IsJoin(kind) || IsLeave(kind); }

bool StartsServersAgain(const Variant& variant) {
  return !variant.has_ps() || variant.ps().policy() != Ps::NONE;
}
bool StartsWorkersAgain(const Variant& variant) {
  return variant.all_reduce().on_loss() == AllReduceSync::REPLACE ||
         variant.ps().on_worker_loss() == Ps::REPLACE;
}

class FaultChecker {
 public:
  FaultChecker(const Checker& check, const Fault& fault, std::string path)
      : check_(check),
        fault_(fault),
        path_(std::move(path)),
        kind_(Fault::Kind_Name(fault.kind())) {}

  void Check() const {
    if (!fault_.has_kind()) Missing("kind", "kind: NAN_GRADIENT");
    if (!fault_.has_target()) Missing("target", "target: \"worker:0\"");
    if (!fault_.at().has_step()) Missing("at.step", "at { step: 5 }");
    if (!fault_.has_kind() || !IsBuilt()) return;
    CheckTarget();
    CheckStep();
    CheckFor();
    CheckPoint();
    CheckMessage();
    if (fault_.has_after_bucket() && !StrikesProcess(fault_.kind())) {
      Error("after_bucket", absl::StrCat("conflicts with kind ", kind_,
                                         ": KILL, FREEZE and RESTART read it; remove it"));
    }
    if (RestartsAllServers(fault_)) {
      CheckRestartOfServers();
    } else if (fault_.kind() == Fault::RESTART) {
      CheckRestart();
    }
    if (ChangesWorkers(fault_.kind())) CheckChange();
    if (fault_.kind() == Fault::DISK_FULL) CheckDisk();
  }

 private:
  bool IsBuilt() const {
    return StrikesProcess(fault_.kind()) || StrikesMessage(fault_.kind()) ||
           fault_.kind() == Fault::CRASH_POINT || fault_.kind() == Fault::DISK_FULL ||
           ChangesWorkers(fault_.kind()) ||
           fault_.kind() == Fault::NAN_GRADIENT;  // others are refused as a whole
  }

  void CheckTarget() const {
    if (!fault_.has_target() || RestartsAllServers(fault_)) return;
    const std::string objection = TargetObjection(TargetOf(fault_.target()));
    if (!objection.empty()) Error("target", objection);
  }

  std::string TargetObjection(const Target& target) const {
    if (target.role == nullptr) {
      return absl::StrCat(
          "\"", absl::CEscape(fault_.target()),
          "\" is not built yet; built today: worker:i and server:i, as worker:0, and "
          "\"servers\" with kind RESTART");
    }
    const bool of_server = StrikesProcess(fault_.kind()) || OfServersAlone();
    if (target.server() && !of_server) {
      return absl::StrCat("conflicts with kind ", kind_,
                          ": only workers have that; write worker:", target.index);
    }
    if (!target.server() && OfServersAlone()) {
      return absl::StrCat("conflicts with kind ", kind_, ": only servers have ",
                          fault_.kind() == Fault::DISK_FULL ? "snapshots" : "crash points",
                          "; write server:0");
    }
    if (!target.server()) return NumberObjection(target, UsableWorkers(check_.experiment));
    const std::vector<int> servers = ServerCounts(check_.experiment);
    if (servers.empty()) return "no variant has a parameter server";
    return NumberObjection(target, servers);
  }

  bool OfServersAlone() const {
    return fault_.kind() == Fault::CRASH_POINT || fault_.kind() == Fault::DISK_FULL;
  }

  void CheckPoint() const {
    if (fault_.kind() != Fault::CRASH_POINT) {
      if (fault_.has_point()) {
        Error("point",
              absl::StrCat("conflicts with kind ", kind_, ": only CRASH_POINT has one; remove it"));
      }
      return;
    }
    if (!fault_.has_point()) return Missing("point", "point: \"applied_not_replicated\"");
    const bool known =
        std::any_of(kCrashPoints.begin(), kCrashPoints.end(),
                    [this](const CrashPointName& row) { return row.name == fault_.point(); });
    if (known) return;
    Error("point", absl::StrCat("\"", absl::CEscape(fault_.point()),
                                "\" is no crash point; write one of ", PointNames()));
  }

  void CheckStep() const {
    const int steps = check_.experiment.train().steps();
    if (steps < 1 || fault_.at().step() <= steps) return;
    Error("at.step", absl::StrCat(fault_.at().step(), " is behind the last step, ", steps));
  }

  void CheckFor() const {
    const bool reads = fault_.kind() == Fault::FREEZE || fault_.kind() == Fault::DELAY ||
                       fault_.kind() == Fault::DISK_FULL;
    if (reads && !fault_.has_for_()) {
      Missing("for", "for: \"500ms\"");
    } else if (reads && !DurationMs(fault_.for_()).has_value()) {
      Error("for", absl::StrCat("\"", absl::CEscape(fault_.for_()),
                                "\" is not a duration of at least 1 ms; write one as \"500ms\" or "
                                "\"2s\""));
    } else if (!reads && fault_.has_for_()) {
      Error("for", absl::StrCat("conflicts with kind ", kind_,
                                ": only FREEZE, DELAY and DISK_FULL last; remove it"));
    }
  }

  void CheckMessage() const {
    if (!StrikesMessage(fault_.kind())) {
      if (!fault_.has_message()) return;
      Error("message", absl::StrCat("conflicts with kind ", kind_,
                                    ": only DROP, DUPLICATE, CORRUPT and DELAY strike a message; "
                                    "remove it"));
      return;
    }
    if (!fault_.message().has_to()) {
      Missing("message.to", "message { to: 1 }");
    } else {
      const Target to = {kWorker, fault_.message().to()};
      const Target from = TargetOf(fault_.target());
      std::string objection = NumberObjection(to, UsableWorkers(check_.experiment));
      if (from.role == kWorker && from.index == to.index) {
        objection = "a worker sends nothing to itself";
      }
      if (!objection.empty()) Error("message.to", objection);
    }
    for (const Variant& variant : check_.experiment.variant()) {
      if (variant.has_all_reduce()) continue;
      Error("kind", absl::StrCat(kind_, " conflicts with variant \"", variant.name(),
                                 "\": only the links of all_reduce lose, repeat, damage or delay "
                                 "messages on purpose; leave it out, as with --only"));
    }
  }

  void CheckRestart() const {
    const bool server = TargetOf(fault_.target()).server();
    for (const Variant& variant : check_.experiment.variant()) {
      if (server ? StartsServersAgain(variant) : StartsWorkersAgain(variant)) continue;
      Error("kind", absl::StrCat("RESTART conflicts with variant \"", variant.name(), "\": ",
                                 server ? "only ps with policy CHAIN or SNAPSHOT starts a server "
                                        : "only all_reduce with on_loss REPLACE, and ps with "
                                          "on_worker_loss REPLACE, start a worker ",
                                 "again; write that, or kind: KILL"));
    }
  }

  // Each leaves with all that it has: only copies of it make that no loss.
  void CheckRestartOfServers() const {
    if (fault_.has_after_bucket()) {
      Error("after_bucket", "conflicts with target \"servers\": they have no buckets; remove it");
    }
    for (const Variant& variant : check_.experiment.variant()) {
      if (variant.has_ps() && variant.ps().policy() == Ps::CHAIN) continue;
      Error("target", absl::StrCat("\"servers\" conflicts with variant \"", variant.name(),
                                   "\": only the servers of ps with policy CHAIN can be restarted "
                                   "without losing a step; write that, or target: \"server:0\""));
    }
  }

  void CheckChange() const {
    for (const Variant& variant : check_.experiment.variant()) {
      if (variant.ps().on_worker_loss() == Ps::SHRINK) continue;
      Error("kind", absl::StrCat(kind_, " conflicts with variant \"", variant.name(),
                                 "\": only the workers of ps with on_worker_loss SHRINK go on with "
                                 "another number of them; write that"));
    }
    const Fault* before = nullptr;  // what this worker did last
    for (const Fault& other : check_.experiment.fault()) {
      if (&other == &fault_ || !ChangesWorkers(other.kind()) || other.target() != fault_.target()) {
        continue;
      }
      if (other.at().step() == fault_.at().step()) {
        return Error("at.step", absl::StrCat(fault_.target(), " joins or leaves twice at step ",
                                             fault_.at().step()));
      }
      const bool earlier = other.at().step() < fault_.at().step();
      if (earlier && (before == nullptr || before->at().step() < other.at().step())) {
        before = &other;
      }
    }
    if (before != nullptr && before->kind() == fault_.kind()) {
      Error("kind", absl::StrCat(kind_, " follows the ", kind_, " of ", fault_.target(),
                                 " at step ", before->at().step(),
                                 "; one that left can join, and "
                                 "one that joined can leave"));
    }
    if (before == nullptr && fault_.kind() == Fault::JOIN && fault_.target() == "worker:0") {
      Error("target",
            "worker:0 spreads the start values, so the run can't begin without it; "
            "write another worker, or let it LEAVE first");
    }
  }

  void CheckDisk() const {
    const std::vector<Variant> variants(check_.experiment.variant().begin(),
                                        check_.experiment.variant().end());
    const bool any = std::any_of(variants.begin(), variants.end(), [](const Variant& variant) {
      return variant.has_ps() && variant.ps().policy() == Ps::SNAPSHOT;
    });
    if (any) return;
    Error("kind", "DISK_FULL strikes nobody: only ps with policy SNAPSHOT writes to a disk");
  }

  void Missing(const char* name, const char* example) const {
    check_.Missing(path_, name, example);
  }
  void Error(const char* name, const std::string& message) const {
    check_.Error(JoinPath(path_, name), message);
  }

  const Checker& check_;
  const Fault& fault_;
  const std::string path_;
  const std::string kind_;
};

// What a group can be rebuilt with: workers that all hold the whole state.
std::string OnLossObjection(const Experiment& experiment, const AllReduceSync& sync) {
  const bool shrinks = sync.on_loss() == AllReduceSync::SHRINK;
  if (sync.engine() != AllReduceSync::HOST) {
    return absl::StrCat("conflicts with engine ", AllReduceSync::Engine_Name(sync.engine()),
                        ": only HOST rebuilds its groups");
  }
  if (sync.algorithm() == AllReduceSync::PS_EXCHANGE) {
    return "conflicts with algorithm PS_EXCHANGE: groups with ranks that sum for others are not "
           "built yet; write another algorithm, or on_loss: STOP";
  }
  if (shrinks && sync.algorithm() == AllReduceSync::HIERARCHICAL && sync.has_group_size()) {
    return "SHRINK conflicts with group_size: the survivors may not be a multiple of it; leave "
           "group_size out, or write REPLACE";
  }
  if (shrinks && experiment.reduce_op() == SUM) {
    return "SHRINK conflicts with reduce_op SUM: with fewer workers the sum, and so every update, "
           "would become smaller; write MEAN, or REPLACE";
  }
  if (!experiment.broadcast_start()) {
    return "conflicts with broadcast_start: false: a rebuilt group takes one worker's state";
  }
  return "";
}

void CheckOnLoss(const Checker& check) {
  for (int i = 0; i < check.experiment.variant_size(); ++i) {
    const AllReduceSync& sync = check.experiment.variant(i).all_reduce();
    if (sync.on_loss() == AllReduceSync::STOP) continue;
    const std::string objection = OnLossObjection(check.experiment, sync);
    if (objection.empty()) continue;
    check.Error(JoinPath(JoinPath(IndexedPath("variant", i), "all_reduce"), "on_loss"), objection);
  }
}

}  // namespace

void CheckFaults(const Checker& check) {
  for (int i = 0; i < check.experiment.fault_size(); ++i) {
    FaultChecker(check, check.experiment.fault(i), IndexedPath("fault", i)).Check();
  }
  CheckOnLoss(check);
}

}  // namespace lockstep
