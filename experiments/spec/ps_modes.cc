// R41: what one mode, policy or rule of a parameter server reads is refused beside another, naming
// both; and what can't work together is refused with the reason.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/member/process.h"
#include "experiments/spec/checker.h"
#include "experiments/spec/size.h"

namespace lockstep {
namespace {

// A field that one setting alone reads.
struct ReadBy {
  const char* field;
  bool (*written)(const Ps&);
  bool (*read)(const Ps&);
  const char* of;  // the setting that should be another: "mode"
  const char* reads;
};
constexpr ReadBy kReadBy[] = {
    {"staleness", [](const Ps& ps) { return ps.has_staleness(); },
     [](const Ps& ps) { return ps.mode() == Ps::BOUNDED; }, "mode", "only mode BOUNDED reads it"},
    {"k", [](const Ps& ps) { return ps.has_k(); },
     [](const Ps& ps) { return ps.mode() == Ps::K_OF_N; }, "mode", "only mode K_OF_N reads it"},
    {"late", [](const Ps& ps) { return ps.has_late(); },
     [](const Ps& ps) { return ps.mode() == Ps::K_OF_N; }, "mode",
     "only mode K_OF_N has late pushes"},
    {"rate", [](const Ps& ps) { return ps.has_rate(); }, &AppliesAlone, "mode",
     "only modes ASYNC and BOUNDED divide the learning rate"},
    {"scale_by_staleness", [](const Ps& ps) { return ps.has_scale_by_staleness(); }, &AppliesAlone,
     "mode", "only modes ASYNC and BOUNDED have stale updates"},
    {"replicas", [](const Ps& ps) { return ps.has_replicas(); },
     [](const Ps& ps) { return ps.policy() == Ps::CHAIN; }, "policy",
     "only policy CHAIN has copies"},
    {"aggregated", [](const Ps& ps) { return ps.has_aggregated(); },
     [](const Ps& ps) { return ps.policy() == Ps::CHAIN; }, "policy",
     "only policy CHAIN has copies"},
    {"snapshot_every", [](const Ps& ps) { return ps.has_snapshot_every(); },
     [](const Ps& ps) { return ps.policy() == Ps::SNAPSHOT; }, "policy",
     "only policy SNAPSHOT writes any"},
    {"servers_per_host", [](const Ps& ps) { return ps.has_servers_per_host(); },
     [](const Ps& ps) { return ps.hosts() == Ps::SHARED; }, "hosts",
     "only hosts SHARED have more than one server"},
};

class PsChecker {
 public:
  PsChecker(const Checker& check, const Ps& ps, std::string path)
      : check_(check), ps_(ps), path_(std::move(path)) {}

  void Check() const {
    for (const ReadBy& row : kReadBy) {
      if (!row.written(ps_) || row.read(ps_)) continue;
      Error(row.field, absl::StrCat("conflicts with ", row.of, " ", Setting(row.of), ": ",
                                    row.reads, "; remove ", row.field));
    }
    CheckBound();
    CheckK();
    CheckCopies();
    CheckPlacement();
    CheckHosts();
    CheckWorkerOptimizer();
    CheckWorkerLoss();
  }

 private:
  std::string Mode() const { return Ps::Mode_Name(ps_.mode()); }
  std::string Policy() const { return Ps::Policy_Name(ps_.policy()); }
  std::string Setting(const std::string& name) const {
    if (name == "mode") return Mode();
    return name == "policy" ? Policy() : Ps::Hosts_Name(ps_.hosts());
  }
  int Servers() const { return ps_.servers_size() > 0 ? ps_.servers(0) : 1; }

  void CheckBound() const {
    if (ps_.mode() != Ps::BOUNDED || ps_.has_staleness()) return;
    Missing("staleness", "staleness: 2, how many steps the fastest worker may be ahead");
  }

  void CheckK() const {
    if (ps_.mode() != Ps::K_OF_N) return;
    if (!ps_.has_k()) return Missing("k", "k: 3, how many pushes make an update");
    for (const int workers : UsableWorkers(check_.experiment)) {
      if (ps_.k() <= workers) continue;
      Error("k", absl::StrCat(ps_.k(), " of ", workers, " workers never come; lower k"));
    }
  }

  void CheckCopies() const {
    if (ps_.policy() != Ps::CHAIN || ps_.replicas() < Servers()) return;
    Error("replicas",
          absl::StrCat(ps_.replicas(), " conflicts with ", Servers(), " server",
                       Servers() == 1 ? "" : "s", ": each copy of a shard is on a server of its ",
                       "own; write servers: ", ps_.replicas() + 1, " or more"));
  }

  // Whole tensors: each server needs one. An mlp has a weight and a bias for each layer.
  void CheckPlacement() const {
    const int tensors = 2 * (check_.experiment.model().mlp().layers_size() - 1);
    if (ps_.placement() == Ps::SPLIT || tensors < 1 || Servers() <= tensors) return;
    Error("placement", absl::StrCat(Ps::Placement_Name(ps_.placement()), " conflicts with ",
                                    Servers(), " servers: the model has ", tensors,
                                    " tensors, and each server needs one; write SPLIT"));
  }

  // Server k is on worker k's host.
  void CheckHosts() const {
    if (ps_.hosts() != Ps::COLOCATED) return;
    for (const int workers : UsableWorkers(check_.experiment)) {
      if (Servers() <= workers) continue;
      Error("hosts", absl::StrCat("COLOCATED conflicts with ", Servers(), " servers and ", workers,
                                  " workers: each server is beside a worker; lower servers, or "
                                  "write OWN or SHARED"));
    }
  }

  // Servers that only sum hold nothing that a worker or a server could begin again with.
  void CheckWorkerOptimizer() const {
    if (ps_.optimizer_on() != Ps::WORKER) return;
    std::vector<std::string> others;
    if (ps_.mode() != Ps::SYNC) others.push_back(absl::StrCat("mode ", Mode()));
    if (ps_.policy() != Ps::NONE) others.push_back(absl::StrCat("policy ", Policy()));
    if (ps_.on_worker_loss() != Ps::STOP) {
      others.push_back(
          absl::StrCat("on_worker_loss ", Ps::OnWorkerLoss_Name(ps_.on_worker_loss())));
    }
    if (others.empty()) return;
    Error("optimizer_on", absl::StrCat("WORKER conflicts with ", absl::StrJoin(others, " and "),
                                       ": the servers then only add up and hold no parameters; "
                                       "write SERVER"));
  }

  void CheckWorkerLoss() const {
    if (ps_.on_worker_loss() == Ps::SHRINK && check_.experiment.reduce_op() == SUM &&
        !AppliesAlone(ps_)) {
      Error("on_worker_loss",
            "SHRINK conflicts with reduce_op SUM: with fewer workers the sum, and so every update, "
            "would become smaller; write MEAN, or REPLACE");
    }
    const bool goes_on = ps_.on_worker_loss() != Ps::STOP || ps_.policy() != Ps::NONE;
    if (goes_on && !check_.experiment.broadcast_start()) {
      Error(ps_.policy() != Ps::NONE ? "policy" : "on_worker_loss",
            "conflicts with broadcast_start: false: who goes on takes the servers' parameters");
    }
  }

  void Missing(const char* name, const std::string& example) const {
    check_.Missing(path_, name, example);
  }
  void Error(const char* name, const std::string& message) const {
    check_.Error(JoinPath(path_, name), message);
  }

  const Checker& check_;
  const Ps& ps_;
  const std::string path_;
};

}  // namespace

void CheckPsModes(const Checker& check) {
  for (int i = 0; i < check.experiment.variant_size(); ++i) {
    if (!check.experiment.variant(i).has_ps()) continue;
    PsChecker(check, check.experiment.variant(i).ps(), JoinPath(IndexedPath("variant", i), "ps"))
        .Check();
  }
}

}  // namespace lockstep
