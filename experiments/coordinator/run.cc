#include "experiments/coordinator/run.h"

#include <poll.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "base/member/limits_proto.h"
#include "base/member/member.h"
#include "base/status.h"
#include "experiments/analyse/atomic_file.h"
#include "experiments/coordinator/processes.h"
#include "experiments/coordinator/server.h"
#include "experiments/coordinator/unreached.h"
#include "worker/sync/nccl_words.h"

namespace lockstep {
namespace {

constexpr int64_t kTickMs = 50;

std::string RandomToken() {
  std::random_device device;
  return absl::StrFormat("%08x%08x%08x%08x", device(), device(), device(), device());
}

// Waits for a tick or for the user's interrupt, whichever comes first.
void WaitTick(int64_t tick_ms, const Abort* abort) {
  pollfd fd{abort == nullptr ? -1 : abort->fd(), POLLIN, 0};
  poll(&fd, 1, static_cast<int>(tick_ms));
}

// A process's last words; empty when it said nothing.
std::string LastLine(const std::string& path) {
  constexpr std::streamoff kTailBytes = 4096;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  file.seekg(std::max<std::streamoff>(0, file.tellg() - kTailBytes));
  std::string last;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) last = line;
  }
  return last;
}

// "worker-2", "mpirun".
std::string LogName(const MemberId& member) {
  return absl::StrReplaceAll(member.ToString(), {{" ", "-"}});
}

// Programs of ours lie beside the launcher.
bool IsOurs(const std::string& word) { return word == "worker" || word == "ps_server"; }

// Starts the workers, each of which learns its rank from Open MPI's variables. They share this
// host's cores as all members do, so they are not bound, and there may be more of them than cores.
std::vector<std::string> MpirunCommand(int workers) {
  return {"/usr/bin/env", "mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to",
          "none",         "-n",     absl::StrCat(workers), "worker"};
}

class Run {
 public:
  Run(const RunConfig& config, const RunOptions& options, const Clock& clock)
      : config_(config),
        options_(options),
        clock_(clock),
        limits_(LimitsFrom(config.experiment().limits())) {
    config_.set_record_dir(absl::StrCat(options.run_dir, "/records"));
  }

  absl::Status Start() {
    std::vector<std::string> dirs = {config_.record_dir(), absl::StrCat(options_.run_dir, "/logs")};
    if (config_.variant().ps().policy() == Ps::SNAPSHOT) dirs.push_back(SnapshotDir());
    std::error_code error;
    for (const std::string& dir : dirs) {
      std::filesystem::create_directories(dir, error);
      if (error) return ErrnoStatus(error.value(), absl::StrCat("cannot create ", dir));
    }
    token_ = RandomToken();
    const MembershipConfig membership{
        .run = config_, .limits = limits_, .build = BuildId(), .token = token_};
    ASSIGN_OR_RETURN(coordinator_, CoordinatorServer::Listen(options_.listen, membership, clock_));
    for (int index = 0; index < config_.servers(); ++index) {
      RETURN_IF_ERROR(Spawn({SERVER, index}));
    }
    if (config_.variant().all_reduce().engine() == AllReduceSync::MPI) return Spawn(kMpirun);
    const PlannedChanges planned(config_.experiment());
    for (int rank = 0; rank < config_.world_size(); ++rank) {
      if (planned.JoinsLater({WORKER, rank})) continue;
      RETURN_IF_ERROR(Spawn({WORKER, rank}));
    }
    return absl::OkStatus();
  }

  void Watch(const Abort& abort, const std::function<void(const RunProgress&)>& progress,
             const std::function<void(const std::string&)>& line) {
    while (!coordinator_->stopping()) {
      WaitTick(std::min(kTickMs, limits_.heartbeat_ms), &abort);
      if (!abort.status().ok()) coordinator_->RequestStop(abort.status());
      for (MemberExit& exit : processes_.Reap()) {
        early_exits_.push_back(exit);
        const std::string said = LastLine(exit.log_path);
        if (!said.empty()) absl::StrAppend(&exit.how, ": ", said);
        coordinator_->OnExit(exit);
      }
      for (const MemberId& member : coordinator_->TakeSpawns()) {
        const absl::Status spawned = Spawn(member);
        if (spawned.ok()) continue;
        coordinator_->OnExit({.member = member, .how = absl::StrCat(spawned.message())});
      }
      coordinator_->Tick();
      WriteManifest(line);
      for (const std::string& text : coordinator_->TakeLines()) line(text);
      progress({.running = coordinator_->running(), .step = coordinator_->step()});
    }
    WriteManifest(line);
    for (const std::string& text : coordinator_->TakeLines()) line(text);
  }

  // Waits for the processes to follow the stop; kills those that don't within the grace.
  RunOutcome Finish() {
    RunOutcome outcome{.status = coordinator_->outcome(), .failures = coordinator_->failures()};
    const int64_t stop_ns = clock_.NowNs();
    bool killed = false;
    // Whoever was lost and is still there is frozen; a replacement may have come too late.
    processes_.Signal(SIGKILL, [this](const MemberId& member, pid_t pid) {
      return coordinator_->Spares(member, pid);
    });
    for (const MemberExit& exit : early_exits_) CheckExit(exit, &outcome);
    while (!processes_.empty()) {
      WaitTick(killed ? kTickMs : std::min(kTickMs, limits_.stop_grace_ms), nullptr);
      for (const MemberExit& exit : processes_.Reap()) CheckExit(exit, &outcome);
      if (killed || (clock_.NowNs() - stop_ns) / kNsPerMs < limits_.stop_grace_ms) continue;
      if (outcome.status.ok()) {
        outcome.status = absl::InternalError(absl::StrCat(
            processes_.Names(), " did not end within stop_grace_ms ", limits_.stop_grace_ms));
      }
      processes_.SignalAll(SIGKILL);
      killed = true;
    }
    return outcome;
  }

  const RunConfig& config() const { return config_; }

 private:
  // A complete run whose process ended badly all the same is not complete.
  void CheckExit(const MemberExit& exit, RunOutcome* outcome) const {
    if (exit.clean || !outcome->status.ok() || coordinator_->Spares(exit.member, exit.pid)) {
      return;
    }
    outcome->status = absl::InternalError(absl::StrCat(exit.member.ToString(), " ", exit.how,
                                                       ", though the run was complete; its log is ",
                                                       exit.log_path));
  }

  // Says which of the snapshots beside it belong together.
  void WriteManifest(const std::function<void(const std::string&)>& line) {
    const std::optional<std::string> manifest = coordinator_->TakeManifest();
    if (!manifest.has_value()) return;
    const absl::Status written =
        WriteFileAtomically(absl::StrCat(SnapshotDir(), "/MANIFEST.textproto"), *manifest);
    if (!written.ok()) line(absl::StrCat(written.message(), "; the snapshots are kept"));
  }

  std::string SnapshotDir() const { return absl::StrCat(config_.record_dir(), "/snapshots"); }

  // A replacement writes beside its predecessor.
  std::string NextLogPath(const MemberId& member) {
    const int before = starts_[member]++;
    return absl::StrCat(options_.run_dir, "/logs/", LogName(member),
                        before == 0 ? "" : absl::StrCat("-again-", before), ".log");
  }

  // The program's name and how it knows which member it is. A server is a parameter server, or a
  // rank of the collective that only sums.
  std::vector<std::string> CommandOf(const MemberId& member) const {
    const std::string index = absl::StrCat(member.index);
    if (member == kMpirun) return MpirunCommand(config_.world_size());
    if (member.role == WORKER) return {"worker", "--rank", index};
    if (config_.variant().has_ps()) return {"ps_server", "--index", index};
    return {"worker", "--role", "server", "--rank", index};
  }

  absl::Status Spawn(const MemberId& member) {
    std::vector<std::string> command = CommandOf(member);
    const auto program = std::find_if(command.begin(), command.end(), IsOurs);
    *program = absl::StrCat(options_.program_dir, "/", *program);
    command.insert(command.end(),
                   {"--coordinator", coordinator_->endpoint(), "--listen", options_.listen.host});
    coordinator_->Tick();  // those who have joined already must hear from us
    return processes_.Spawn(member, command, EnvironmentOf(member), NextLogPath(member));
  }

  std::vector<std::string> EnvironmentOf(const MemberId& member) const {
    std::vector<std::string> environment = {absl::StrCat("LOCKSTEP_TOKEN=", token_)};
    if (member.role != WORKER) return environment;
    if (!options_.cublas_library.empty()) {
      environment.push_back(absl::StrCat("LOCKSTEP_CUBLAS_LIB=", options_.cublas_library));
    }
    const AllReduceSync& sync = config_.variant().all_reduce();
    if (sync.engine() != AllReduceSync::NCCL) return environment;
    if (!options_.nccl_library.empty()) {
      environment.push_back(absl::StrCat("LOCKSTEP_NCCL_LIB=", options_.nccl_library));
    }
    const std::vector<std::string> nccl = NcclEnvironment(sync.nccl(), member.index);
    environment.insert(environment.end(), nccl.begin(), nccl.end());
    return environment;
  }

  RunConfig config_;
  const RunOptions options_;
  const Clock& clock_;
  const Limits limits_;
  std::string token_;
  std::unique_ptr<CoordinatorServer> coordinator_;
  Processes processes_;
  std::map<MemberId, int> starts_;
  std::vector<MemberExit> early_exits_;  // before Finish; some may be after the stop
};

}  // namespace

RunOutcome ExecuteRun(const RunConfig& config, const RunOptions& options, const Clock& clock,
                      const Abort& abort, const std::function<void(const RunProgress&)>& progress,
                      const std::function<void(const std::string&)>& line) {
  Run run(config, options, clock);
  if (const absl::Status started = run.Start(); !started.ok()) {
    return {.status = started, .failures = {}};
  }
  run.Watch(abort, progress, line);
  RunOutcome outcome = run.Finish();
  for (const std::string& text : UnreachedFaults(run.config())) line(text);
  return outcome;
}

}  // namespace lockstep
