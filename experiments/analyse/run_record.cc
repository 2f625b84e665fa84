#include "experiments/analyse/run_record.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/member/fault_plan.h"
#include "experiments/spec/size.h"
#include "worker/sync/nccl_words.h"

namespace lockstep {
namespace {

constexpr int kWarmupStepsMax = 5;  // connections, allocator and page cache have settled by then

// Empty when the record is this member's; otherwise what does not fit.
std::string Foreign(const RunConfig& config, const std::string& role, int index,
                    const Started& started) {
  if (started.role() != role || started.index() != index) {
    return absl::StrCat("record was written by ", started.role(), " ", started.index());
  }
  if (started.variant() != config.variant().name() || started.block() != config.block() ||
      started.seed() != config.seed()) {
    return absl::StrCat("record belongs to variant ", started.variant(), ", block ",
                        started.block(), ", seed ", started.seed(), ", not to ",
                        config.variant().name(), ", block ", config.block(), ", seed ",
                        config.seed());
  }
  return "";
}

// The last process so far, which the run went on without, was neither dead nor frozen, nor did it
// go as planned.
bool LivedOn(const MemberRecord& member) {
  return member.ended && !member.ended->left() && !member.struck;
}

class MemberMerger {
 public:
  MemberMerger(const RunConfig& config, std::string role, int index)
      : config_(config), role_(std::move(role)), index_(index) {
    member_.name = absl::StrCat(role_, " ", index_);
  }

  void Take(const std::vector<Record>& records) {
    if (records.empty() || !records.front().has_started()) {
      Problem("no start record");
      return;
    }
    member_.started = records.front().started();
    const std::string foreign = Foreign(config_, role_, index_, member_.started);
    if (!foreign.empty()) {
      Problem(foreign);
      return;
    }
    for (const Record& record : records) TakeEvent(record);
    if (member_.ended && member_.ended->left()) {
      Problem(absl::StrCat("left as planned after step ", last_step_));
    } else if (!member_.ended) {
      Problem(absl::StrCat("record stops after step ", last_step_));
    } else if (member_.ended->code() != 0) {
      Problem(absl::StrCat("ended with an error in step ", member_.ended->step(), ": ",
                           member_.ended->message()));
    } else if (MakesSteps() && last_step_ != config_.experiment().train().steps()) {
      Problem(absl::StrCat("ended after step ", last_step_, " of ",
                           config_.experiment().train().steps()));
    }
  }

  void Problem(const std::string& what) {
    problems_.push_back(absl::StrCat(member_.name, ": ", what));
  }

  MemberRecord member() { return std::move(member_); }
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  void TakeEvent(const Record& record) {
    switch (record.event_case()) {
      case Record::kStarted:
        // A replacement. Its predecessor may have ended later, with an error: nobody listened.
        if (started_++ > 0) {
          member_.false_failovers += LivedOn(member_) ? 1 : 0;
          member_.ended.reset();
          member_.struck = false;
        }
        break;
      case Record::kRebuilt:
        Resume(record.rebuilt(), record.time_ns());
        break;
      case Record::kSetUp:
        member_.set_up = record.set_up();
        break;
      case Record::kStep:
        // Everything below indexes steps by number, so a gap ends what can be used.
        if (record.step().step() != last_step_ + 1) {
          Problem(absl::StrCat("step ", record.step().step(), " follows step ", last_step_));
          break;
        }
        member_.steps.push_back(record.step());
        last_step_ = record.step().step();
        break;
      case Record::kProbed:
        DropProbesFrom(record.probed().step());
        member_.probes.push_back(record.probed());
        // Its copies are in a file of its own, which the readers of distances don't know.
        if (started_ > 1) member_.probes.back().set_snapshot_offset(-1);
        break;
      case Record::kApplied:
        member_.applied.push_back(record.applied());
        last_step_ = std::max(last_step_, record.applied().step());
        break;
      case Record::kRecovered:
        Recover(record.recovered());
        break;
      case Record::kEnded:
        member_.ended = record.ended();
        break;
      case Record::kInjected:
        TakeStrike(record.injected(), record.time_ns());
        break;
      case Record::EVENT_NOT_SET:
        break;
    }
  }

  // A parameter server that has taken another's place may head no shard, and then applies nothing.
  bool MakesSteps() const {
    const bool replaced_server = role_ == "server" && config_.variant().has_ps() && started_ > 1;
    return member_.applied.empty() && !replaced_server;
  }

  // A rebuilt group goes on after `rebuilt.step()`: what this member did beyond is undone, what it
  // lacks came from a peer.
  void Resume(const Rebuilt& rebuilt, int64_t time_ns) {
    member_.rebuilds.push_back(rebuilt);
    member_.rebuilt_ns.push_back(time_ns);
    const auto finished = static_cast<int64_t>(member_.steps.size());
    member_.redone_steps.push_back(std::max<int64_t>(0, finished - rebuilt.step()));
    DropProbesFrom(rebuilt.step() + 1);
    std::vector<StepDone>& steps = member_.steps;
    steps.resize(std::min(steps.size(), static_cast<size_t>(rebuilt.step())));
    while (static_cast<int64_t>(steps.size()) < rebuilt.step()) {
      StepDone taken;
      taken.set_step(static_cast<int64_t>(steps.size()) + 1);
      taken.set_start_ns(steps.empty() ? time_ns : EndNs(steps.back()));
      taken.set_sync_ns(time_ns - taken.start_ns());
      taken.set_loss(std::numeric_limits<double>::quiet_NaN());
      steps.push_back(std::move(taken));
    }
    last_step_ = rebuilt.step();
  }

  void TakeStrike(const Injected& injected, int64_t time_ns) {
    Fault::Kind kind = Fault::KILL;
    const bool known = Fault::Kind_Parse(injected.kind(), &kind);
    if (!known || !(StrikesProcess(kind) || StrikesPoint(kind))) return;
    member_.struck_ns.push_back(time_ns);
    member_.struck = true;
  }

  // A snapshot takes back what came after it, of this process and of the one that it replaces.
  void Recover(const Recovered& recovered) {
    member_.recoveries.push_back(recovered);
    if (config_.variant().ps().policy() != Ps::SNAPSHOT) return;
    // Anywhere: an update is written once its reply is sent, and replies overtake each other.
    std::erase_if(member_.applied, [&recovered](const Applied& applied) {
      return applied.version() > recovered.version();
    });
  }

  void DropProbesFrom(int64_t step) {
    while (!member_.probes.empty() && member_.probes.back().step() >= step) {
      member_.probes.pop_back();
    }
  }

  const RunConfig& config_;
  const std::string role_;
  const int index_;
  MemberRecord member_;
  int started_ = 0;  // processes
  int64_t last_step_ = 0;
  std::vector<std::string> problems_;
};

std::string Servers(int servers) {
  return absl::StrCat(", ", servers, servers == 1 ? " server" : " servers");
}

// ", 2 servers", ", 2 servers among the workers"; empty: nobody only sums.
std::string OfServers(const AllReduceSync& sync, int processes) {
  if (sync.algorithm() != AllReduceSync::PS_EXCHANGE) return "";
  const bool apart = sync.placement() != AllReduceSync::COLOCATED;
  constexpr const char* kWhere[] = {"", " among the workers", " and all workers"};
  return absl::StrCat(Servers(apart ? processes : SummingRanksOf(sync)), kWhere[sync.placement()]);
}

// "sync", "bounded, staleness 2", "first 3 of n".
std::string ModeLabel(const Ps& ps) {
  switch (ps.mode()) {
    case Ps::BOUNDED:
      return absl::StrCat("bounded, staleness ", ps.staleness());
    case Ps::K_OF_N:
      return absl::StrCat("first ", ps.k(), " of n");
    default:
      return absl::AsciiStrToLower(Ps::Mode_Name(ps.mode()));
  }
}

// ", 1 replica", ", snapshots every 10 steps", ", optimizer on the workers"; empty: nothing of it.
std::string HostsLabel(const Ps& ps) {
  if (ps.hosts() == Ps::COLOCATED) return ", beside workers";
  return ps.hosts() == Ps::SHARED ? ", on shared hosts" : "";
}

std::string PolicyLabel(const Ps& ps) {
  if (ps.optimizer_on() == Ps::WORKER) return ", optimizer on the workers";
  if (ps.policy() == Ps::SNAPSHOT) {
    return absl::StrCat(", snapshots every ", ps.snapshot_every(), " steps");
  }
  if (ps.policy() != Ps::CHAIN) return "";
  return absl::StrCat(", ", ps.replicas(), ps.replicas() == 1 ? " replica" : " replicas");
}

std::string CollectiveLabel(AllReduceSync::Algorithm algorithm) {
  switch (algorithm) {
    case AllReduceSync::NAIVE:
      return "Naive all-to-all";
    case AllReduceSync::TREE:
      return "Tree all-reduce, pipelined";
    case AllReduceSync::DOUBLE_TREE:
      return "Double-tree all-reduce, pipelined";
    case AllReduceSync::HALVING_DOUBLING:
      return "Halving-doubling all-reduce";
    case AllReduceSync::RECURSIVE_DOUBLING:
      return "Recursive-doubling all-reduce";
    case AllReduceSync::DIRECT:
      return "Direct two-shot all-reduce";
    case AllReduceSync::AUTO:
      return "All-reduce, algorithm by size";
    case AllReduceSync::PS_EXCHANGE:
      return "Parameter-server exchange as a schedule";
    default: {
      std::string name = absl::AsciiStrToLower(AllReduceSync::Algorithm_Name(algorithm));
      if (!name.empty()) name[0] = absl::ascii_toupper(static_cast<unsigned char>(name[0]));
      return absl::StrCat(name, " all-reduce");
    }
  }
}

// The last group had fewer workers: those that were not in it are named instead of their problems.
void FindLost(RunRecord* run, std::vector<std::vector<std::string>>* problems) {
  const auto last_epoch = [](const MemberRecord& worker) {
    return worker.rebuilds.empty() ? 0 : worker.rebuilds.back().epoch();
  };
  const auto furthest =
      std::max_element(run->workers.begin(), run->workers.end(),
                       [&](const auto& a, const auto& b) { return last_epoch(a) < last_epoch(b); });
  if (furthest == run->workers.end() || furthest->rebuilds.empty()) return;
  const Rebuilt& last = furthest->rebuilds.back();
  if (last.world_size() >= static_cast<int>(run->workers.size())) return;
  run->shrank = true;
  for (size_t i = 0; i < run->workers.size(); ++i) {
    if (last_epoch(run->workers[i]) == last.epoch()) {
      run->shrank = run->shrank && (*problems)[i].empty();
      continue;
    }
    run->workers[i].false_failovers += LivedOn(run->workers[i]) ? 1 : 0;
    const bool left = run->workers[i].ended && run->workers[i].ended->left();
    (*problems)[i] = {absl::StrCat(run->workers[i].name, left ? " left as planned" : " was lost",
                                   "; the run went on with ", last.world_size(),
                                   " workers after step ", last.step())};
  }
}

}  // namespace

RunRecord MergeRun(const RunConfig& config, const RecordReader& read) {
  RunRecord run;
  run.config = config;
  std::vector<std::vector<std::string>> problems;  // of each member
  const auto merge = [&](const std::string& role, int count, std::vector<MemberRecord>* members) {
    for (int index = 0; index < count; ++index) {
      MemberMerger merger(config, role, index);
      absl::StatusOr<std::vector<Record>> records = read(role, index);
      if (records.ok()) {
        merger.Take(*records);
      } else {
        merger.Problem(absl::StrCat("no record: ", records.status().message()));
      }
      problems.push_back(merger.problems());
      members->push_back(merger.member());
    }
  };
  merge("worker", config.world_size(), &run.workers);
  FindLost(&run, &problems);
  merge("server", config.servers(), &run.servers);
  for (const std::vector<std::string>& own : problems) {
    run.problems.insert(run.problems.end(), own.begin(), own.end());
  }
  run.complete = run.problems.empty() && !run.workers.empty();
  return run;
}

std::string ModeOf(const Variant& variant) {
  switch (variant.sync_case()) {
    case Variant::kNone:
      return "none";
    case Variant::kPs:
      return absl::StrCat("ps_", absl::AsciiStrToLower(Ps::Mode_Name(variant.ps().mode())));
    case Variant::kAllReduce:
      return "all_reduce";
    case Variant::kSharded:
    case Variant::kLocalSgd:
    case Variant::SYNC_NOT_SET:
      break;
  }
  return "";
}

bool IsSynchronous(const std::string& mode) { return mode == "ps_sync" || mode == "all_reduce"; }

bool AppliesAlone(const std::string& mode) { return mode == "ps_async" || mode == "ps_bounded"; }

std::string AlgorithmOf(const Variant& variant) {
  if (!variant.has_all_reduce()) return "";
  if (variant.all_reduce().engine() != AllReduceSync::HOST) {
    return absl::AsciiStrToLower(AllReduceSync::Engine_Name(variant.all_reduce().engine()));
  }
  return absl::AsciiStrToLower(AllReduceSync::Algorithm_Name(variant.all_reduce().algorithm()));
}

std::string RateOf(const Variant& variant) {
  if (!AppliesAlone(ModeOf(variant))) return "";
  return variant.ps().rate() == Ps::FULL ? "r" : "r/n";
}

std::string LabelOf(const Variant& variant, int servers) {
  switch (variant.sync_case()) {
    case Variant::kNone:
      return "No synchronisation";
    case Variant::kPs: {
      const std::string rate = RateOf(variant);
      return absl::StrCat("Parameter server, ", ModeLabel(variant.ps()), Servers(servers),
                          rate.empty() ? "" : ", rate ", rate, PolicyLabel(variant.ps()),
                          HostsLabel(variant.ps()));
    }
    case Variant::kAllReduce: {
      const AllReduceSync& sync = variant.all_reduce();
      if (sync.engine() == AllReduceSync::MPI) return "All-reduce of Open MPI";
      if (sync.engine() == AllReduceSync::GLOO) return "All-reduce of Gloo";
      if (sync.engine() == AllReduceSync::NCCL) return NcclLabel(sync.nccl());
      const bool kernels = sync.engine() == AllReduceSync::CUDA;
      return absl::StrCat(
          CollectiveLabel(sync.algorithm()), OfServers(sync, servers),
          sync.link() == AllReduceSync::SHM ? ", shared memory" : "",
          sync.channels() > 1 ? absl::StrCat(", ", sync.channels(), " channels") : "",
          kernels ? ", CUDA kernels" : "",
          sync.cuda().share_gpu() ? ", ranks share a GPU: correctness only" : "");
    }
    case Variant::kSharded:
    case Variant::kLocalSgd:
    case Variant::SYNC_NOT_SET:
      break;
  }
  return variant.name();
}

uint64_t FirstSeed(const RunRecord& run) {
  const Train& train = run.config.experiment().train();
  return train.seeds_size() > 0 ? train.seeds(0) : run.config.seed();
}

int WarmupSteps(int steps) { return std::min(kWarmupStepsMax, steps / 10); }

size_t CommonSteps(const RunRecord& run) {
  size_t steps = run.workers.empty() ? 0 : run.workers[0].steps.size();
  for (const MemberRecord& worker : run.workers) steps = std::min(steps, worker.steps.size());
  return steps;
}

bool IsTakenOver(const StepDone& step) {
  return step.exchange_size() == 0 && std::isnan(step.loss());
}

int64_t EndNs(const StepDone& step) { return step.start_ns() + step.compute_ns() + step.sync_ns(); }

int64_t FirstStartNs(const RunRecord& run) {
  int64_t start_ns = INT64_MAX;
  for (const MemberRecord& worker : run.workers) {
    if (!worker.steps.empty()) start_ns = std::min(start_ns, worker.steps[0].start_ns());
  }
  return start_ns;
}

}  // namespace lockstep
