#include "experiments/simulate/cluster.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/status.h"
#include "experiments/simulate/audit.h"
#include "experiments/simulate/troubles.h"
#include "ps_server/wire/rules_from_spec.h"

namespace lockstep {
namespace {

constexpr int32_t kCoordinatorHost = 0;
constexpr double kNsPerMsD = 1e6;
constexpr double kJoinMsMax = 20;  // processes of a run do not start in one moment

class Cluster {
 public:
  Cluster(const ClusterOptions& options, const Plan& plan)
      : options_(options),
        plan_(plan),
        rules_(RulesOf(options.run)),
        layout_{.rules = rules_,
                .placement = PsPlacement::kSplit,
                .tensor_counts = options.tensor_counts,
                .shards = options.run.servers(),
                .world_size = options.run.world_size()},
        ranges_(RangesOf(layout_)),
        model_(*CountElements(options.tensor_counts), options.seed),
        audit_({.rules = rules_,
                .ranges = ranges_,
                .workers = options.run.world_size(),
                .steps = options.run.experiment().train().steps(),
                .undisturbed = options.run.variant().ps().on_worker_loss() != Ps::SHRINK},
               model_),
        world_(options.network, options.seed),
        random_(options.seed, 4),
        troubles_(
            plan, &world_,
            {.process = [this](const TroubleTarget& t) { return Find(t); },
             .duplicate = [this](int32_t worker, int64_t frames) { Duplicate(worker, frames); },
             .disk = &disk_}) {}

  ClusterResult Run() {
    if (options_.shape) {
      world_.network().Place(0, kCoordinatorHost);
      options_.shape(&world_.network());
    }
    StartCoordinator();
    for (int32_t i = 0; i < options_.run.servers(); ++i) Start({SERVER, i}, kJoinMsMax);
    for (int32_t i = 0; i < options_.run.world_size(); ++i) Start({WORKER, i}, kJoinMsMax);
    world_.set_on_exit([this](const SimExit& exit) { OnExit(exit); });
    troubles_.Begin();
    while (!Over() && world_.now_ns() < options_.end_ms * kNsPerMsD && world_.Step()) {
    }
    Conclude();
    return std::move(result_);
  }

 private:
  static PsRules RulesOf(const RunConfig& run) {
    const absl::StatusOr<PsRules> rules = PsRulesFrom(run);
    CHECK(rules.ok()) << rules.status().ToString();
    return *rules;
  }
  static std::vector<ShardRange> RangesOf(const PsLayout& layout) {
    absl::StatusOr<std::vector<ShardRange>> ranges =
        Partition(layout.tensor_counts, layout.shards, layout.placement);
    CHECK(ranges.ok()) << ranges.status().ToString();
    return *std::move(ranges);
  }
  bool audits() const { return options_.versions_max >= 0; }

  void StartCoordinator() {
    MembershipConfig config;
    config.run = options_.run;
    config.limits = options_.limits;
    config.build = kSimBuild;
    SimCoordinator::Events events;
    events.spawn = [this](const MemberId& id) { Start(id, options_.spawn_ms); };
    events.line = [this](const std::string& line) { result_.lines.push_back(line); };
    events.command = [this](const Command& command) { OnCommand(command); };
    coordinator_process_ = world_.Start(kCoordinatorHost, 0, [&](const SimContext& self) {
      auto code = options_.makers.coordinator(self, config, events);
      coordinator_ = code.get();
      return code;
    });
  }

  int32_t HostOf(const MemberId& id) {
    const int32_t own =
        id.role == SERVER ? HostOfServer(id.index) : HostOfWorker(options_, id.index);
    const auto moved = moved_to_.find(own);
    return moved == moved_to_.end() ? own : moved->second;
  }

  void Start(const MemberId& id, double within_ms) {
    if (troubles_.lost_host(HostOf(id))) {
      const int32_t own =
          id.role == SERVER ? HostOfServer(id.index) : HostOfWorker(options_, id.index);
      moved_to_[own] = next_host_++;
    }
    const double delay_ns = kNsPerMsD * within_ms * static_cast<double>(random_.Uniform());
    const int64_t process = world_.Start(HostOf(id), delay_ns, [&](const SimContext& self) {
      return id.role == SERVER ? MakeServer(self, id.index) : MakeWorker(self, id.index);
    });
    process_of_[id] = process;
    member_of_[process] = id;
  }

  SimMemberOptions MemberOptions(Role role, int32_t index) const {
    return {.role = role,
            .index = index,
            .coordinator = coordinator_process_,
            .limits = options_.limits};
  }

  std::unique_ptr<SimProcess> MakeServer(const SimContext& self, int32_t index) {
    SimServerOptions options{.member = MemberOptions(SERVER, index)};
    options.crash = [this, index](CrashPoint point, int64_t step) {
      if (troubles_.Strikes(index, point, step)) throw SimCrash();
    };
    SimServerEvents events;
    events.moved = [this](int64_t process, int64_t epoch, const Exchange& exchange) {
      if (audits()) audit_.OnMoved(process, epoch, exchange);
    };
    events.served = [this](const UpdateServed& served) {
      if (result_.all_ms > 0) return;
      ++result_.updates;
      if (!served.update.staleness.has_value()) return;
      result_.update_staleness += static_cast<double>(served.update.staleness->update);
    };
    auto code = options_.makers.server(self, std::move(options), &disk_, std::move(events));
    servers_[self.process()] = code.get();
    return code;
  }

  std::unique_ptr<SimProcess> MakeWorker(const SimContext& self, int32_t index) {
    SimWorkerOptions options{.member = MemberOptions(WORKER, index),
                             .layout = layout_,
                             .ranges = ranges_,
                             .steps = options_.run.experiment().train().steps(),
                             .step_times = options_.step_times,
                             .seed = options_.seed};
    SimWorkerEvents events;
    events.begins = [this] { ++result_.attempts; };
    events.gradient = [this](int32_t worker, int64_t step, std::span<const float> gradient) {
      if (audits()) audit_.OnGradient(worker, step, gradient);
    };
    events.told = [this](int32_t worker, int64_t process, const PsFrame& header, bool answer) {
      if (audits()) audit_.OnTold(worker, process, header, answer);
    };
    events.finished = [this](int32_t worker, int64_t step, std::span<const float> parameters) {
      if (audits()) audit_.OnFinished(worker, step, parameters);
      last_step_ns_ = world_.now_ns();
      if (result_.all_ms > 0) return;
      ++result_.all_steps;
      if (step < options_.run.experiment().train().steps()) return;
      result_.all_ms = (world_.now_ns() - first_go_ns_) / kNsPerMsD;
    };
    events.failed = [this](int32_t worker, const absl::Status& status) {
      if (absl::IsInternal(status) || absl::IsDataLoss(status)) {
        audit_.Break(absl::StrCat("worker ", worker, ": ", absl::StrCat(status.message())));
      }
    };
    auto code = options_.makers.worker(self, std::move(options), model_, std::move(events));
    workers_[self.process()] = code.get();
    return code;
  }

  // The process that is this member now, or was last; 0: none.
  int64_t Find(const TroubleTarget& target) const {
    using Role = TroubleTarget::Role;
    if (target.role == Role::kCoordinator) return coordinator_process_;
    const MemberId id{target.role == Role::kServer ? SERVER : WORKER, target.index};
    const auto found = process_of_.find(id);
    return found == process_of_.end() ? 0 : found->second;
  }

  void Duplicate(int32_t worker, int64_t frames) {
    const auto found = workers_.find(Find({TroubleTarget::Role::kWorker, worker}));
    if (found != workers_.end()) found->second->DuplicatePushes(frames);
  }

  void OnCommand(const Command& command) {
    if (coordinator_->membership().stopping() && !std::exchange(stopping_, true)) NoteWhoIsLeft();
    if (command.has_start() && command.start().epoch() > result_.epochs) {
      result_.epochs = command.start().epoch();
      start_ = command.start();
      audit_.OnStart(start_);
    }
    if (command.has_go() && first_go_ns_ < 0) first_go_ns_ = world_.now_ns();
    if (command.has_lost() && command.lost().epoch() > lost_epoch_) {
      lost_epoch_ = command.lost().epoch();
      troubles_.GroupIsDead();
    }
  }

  void OnExit(const SimExit& exit) {
    const auto member = member_of_.find(exit.process);
    if (member == member_of_.end() || !world_.alive(coordinator_process_)) return;
    coordinator_->OnExit(
        {.member = member->second, .pid = exit.process, .clean = exit.clean, .how = exit.how});
  }

  bool Over() const {
    if (!coordinator_->membership().stopping() || (audits() && audit_.full())) return false;
    return std::all_of(member_of_.begin(), member_of_.end(), [this](const auto& each) {
      return !world_.alive(each.first) || world_.frozen(each.first);
    });
  }

  void Conclude() {
    const Membership& membership = coordinator_->membership();
    result_.elapsed_ms = world_.now_ns() / kNsPerMsD;
    result_.training_ms = (last_step_ns_ - std::max(first_go_ns_, 0.0)) / kNsPerMsD;
    result_.steps = membership.step();
    result_.events = world_.events();
    result_.messages = world_.network().messages();
    result_.sent_bytes = world_.network().sent_bytes();
    if (result_.updates > 0) result_.update_staleness /= static_cast<double>(result_.updates);
    if (!membership.stopping()) {
      result_.outcome = absl::InternalError("it hangs");
      audit_.Break(absl::StrCat("the run stands still: step ", membership.step(), " after ",
                                options_.end_ms, " ms"));
    } else {
      result_.outcome = membership.outcome();
      CheckOutcome();
    }
    if (result_.outcome.ok() && audits()) {
      audit_.OnEnd(Heads());
      result_.loss = audit_.Loss();
    }
    result_.broken = audit_.broken();
  }

  // Of the last group. A server's newest process may have come too late for it.
  std::map<int32_t, int64_t> Heads() const {
    std::map<int32_t, int64_t> processes;
    for (const MemberInfo& info : start_.member()) {
      if (info.role() == SERVER) processes[info.index()] = SimMember::ProcessOf(info);
    }
    std::map<int32_t, int64_t> heads;
    for (const ShardChain& chain : start_.chain()) {
      heads[chain.shard()] = processes.at(chain.server(0));
    }
    return heads;
  }

  // Whether the end that the run came to was the one it should have come to.
  void CheckOutcome() {
    const double lease_ms = static_cast<double>(options_.limits.lease_ms);
    const bool excused = MayEndAGroup(plan_, lease_ms);
    const std::string first = result_.lines.empty() ? "" : result_.lines.front();
    if (result_.epochs > 1 && !excused) {
      audit_.Break(
          absl::StrCat("a false failover: nobody was lost, nor silent for the lease; ", first));
    }
    if (result_.outcome.ok()) return;
    const std::string why(result_.outcome.message());
    if (!excused) audit_.Break(absl::StrCat("the run failed for nothing: ", why));
    const Ps& ps = options_.run.variant().ps();
    const bool begun = first_go_ns_ >= 0;  // a group that never began is not rebuilt
    if (!begun || (ps.policy() == Ps::NONE && ps.on_worker_loss() == Ps::STOP)) return;
    if (absl::StrContains(why, "no worker is left") && !worker_left_) return;
    // The one file that a plan damages was all there was yet.
    const bool all_damaged = absl::StrContains(why, "no snapshot is left that can be restored");
    if (all_damaged && disk_.irreplaceable(options_.run.servers())) return;
    const std::set<int32_t> given_up = GivenUp(why);
    if (given_up.empty()) audit_.Break(absl::StrCat("the run gave up: ", why));
    // Beyond what the policy survives, and said so.
    for (const int32_t shard : given_up) {
      if (!holders_.contains(shard)) continue;
      audit_.Break(absl::StrCat("the run gave shard ", shard, " up, but process ",
                                holders_.at(shard), " has it: ", why));
    }
  }

  // "shard 2 is lost", "shards 0, 1 and 2 are lost".
  std::set<int32_t> GivenUp(const std::string& why) const {
    std::set<int32_t> shards;
    const size_t end = std::min(why.find(" is lost: "), why.find(" are lost: "));
    const size_t begin = end == std::string::npos ? end : why.rfind("shard", end);
    if (begin == std::string::npos) return shards;
    const std::string named = why.substr(begin, end - begin);
    for (const absl::string_view word : absl::StrSplit(named, absl::ByAnyChar(" ,"))) {
      int32_t shard = 0;
      if (absl::SimpleAtoi(word, &shard)) shards.insert(shard);
    }
    return shards;
  }

  // When the coordinator ends the run, before everybody is told: which shards are held by a server
  // that is in its place, and whether some worker is.
  void NoteWhoIsLeft() {
    for (const auto& [process, id] : member_of_) {
      const bool here = world_.alive(process) && !world_.frozen(process) &&
                        !coordinator_->membership().Spares(id, process);
      if (!here) continue;
      if (id.role == WORKER) worker_left_ = true;
      if (id.role != SERVER) continue;
      for (const auto& [shard, seat] : servers_.at(process)->exchange().seats()) {
        if (seat.copy.has_value() && seat.copy->has_state()) holders_[shard] = process;
      }
    }
  }

  const ClusterOptions& options_;
  const Plan& plan_;
  const PsRules rules_;
  const PsLayout layout_;
  const std::vector<ShardRange> ranges_;
  const SimModel model_;
  SimAudit audit_;
  SimDisk disk_;
  SimWorld world_;
  Random random_;
  Troubles troubles_;
  SimCoordinator* coordinator_ = nullptr;  // the world owns processes
  int64_t coordinator_process_ = 0;
  std::map<MemberId, int64_t> process_of_;  // newest
  std::map<int64_t, MemberId> member_of_;
  std::map<int64_t, SimServer*> servers_;
  std::map<int64_t, SimWorker*> workers_;
  std::map<int32_t, int32_t> moved_to_;  // from a host that is lost
  int32_t next_host_ = 1'000;
  lockstep::Start start_;
  int64_t lost_epoch_ = 0;
  double first_go_ns_ = -1;
  double last_step_ns_ = 0;
  bool stopping_ = false;
  std::map<int32_t, int64_t> holders_;  // [shard]: a process that had it when the run ended
  bool worker_left_ = false;
  ClusterResult result_;
};

}  // namespace

SimMakers RealMakers() {
  SimMakers makers;
  makers.coordinator = [](const SimContext& self, const MembershipConfig& config,
                          SimCoordinator::Events events) {
    return std::make_unique<SimCoordinator>(self, config, std::move(events));
  };
  makers.server = [](const SimContext& self, SimServerOptions options, SimDisk* disk,
                     SimServerEvents events) {
    return std::make_unique<SimServer>(self, std::move(options), disk, std::move(events));
  };
  makers.worker = [](const SimContext& self, SimWorkerOptions options, const SimModel& model,
                     SimWorkerEvents events) {
    return std::make_unique<SimWorker>(self, std::move(options), model, std::move(events));
  };
  return makers;
}

int32_t HostOfServer(int32_t index) { return 1 + index; }

int32_t HostOfWorker(const ClusterOptions& options, int32_t index) {
  const int32_t servers = options.run.servers();
  return options.colocated ? HostOfServer(index % servers) : HostOfServer(servers + index);
}

ClusterResult RunCluster(const ClusterOptions& options, const Plan& plan) {
  return Cluster(options, plan).Run();
}

}  // namespace lockstep
