#include "experiments/cli/failure_run.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/member/limits_proto.h"
#include "base/member/record_writer.h"
#include "base/socket.h"
#include "base/status.h"
#include "experiments/analyse/atomic_file.h"
#include "experiments/analyse/run_json.h"
#include "experiments/spec/spec.h"

namespace lockstep {
namespace {

constexpr int kLookMs = 10;
constexpr int kSignalBase = 128;
constexpr int64_t kSpareMs = 15'000;  // for starting, training and writing on a busy machine
constexpr int64_t kSlower = 5;        // than before the strike, the rest of the run may be

int CodeOf(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : kSignalBase + WTERMSIG(status);
}

// `compare` as a child with its own process group, so that Ctrl-C reaches this process alone; the
// kernel ends it with this one.
absl::StatusOr<pid_t> Spawn(const std::vector<std::string>& command, const std::string& log_path) {
  constexpr int kMode = 0644;
  const UniqueFd log(open(log_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode));
  if (!log.valid()) return ErrnoStatus(errno, absl::StrCat("cannot create ", log_path));
  std::vector<char*> argv;
  argv.reserve(command.size() + 1);
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const pid_t pid = fork();
  if (pid < 0) return ErrnoStatus(errno, absl::StrCat("cannot start ", command[0]));
  if (pid == 0) {
    sigset_t none;
    sigemptyset(&none);
    const bool ready = sigprocmask(SIG_SETMASK, &none, nullptr) == 0 && setpgid(0, 0) == 0 &&
                       prctl(PR_SET_PDEATHSIG, SIGTERM) == 0 &&
                       dup2(log.get(), STDOUT_FILENO) >= 0 && dup2(log.get(), STDERR_FILENO) >= 0;
    if (ready) execv(argv[0], argv.data());
    _exit(127);
  }
  return pid;
}

// A zombie is gone.
bool Gone(pid_t pid) {
  std::ifstream stat(absl::StrCat("/proc/", pid, "/stat"));
  std::string text;
  std::getline(stat, text);
  const size_t name_end = text.rfind(") ");
  return name_end == std::string::npos || text[name_end + 2] == 'Z' || text[name_end + 2] == 'X';
}

// This run alone, as a spec.
Experiment ExperimentOf(const FailureCase& failure) {
  Experiment experiment = failure.config.experiment();  // holds this run's number of workers
  experiment.clear_variant();
  *experiment.add_variant() = failure.config.variant();
  experiment.mutable_train()->clear_seeds();
  experiment.mutable_train()->add_seeds(failure.config.seed());
  experiment.set_blocks(1);
  return experiment;
}

class Run {
 public:
  Run(const FailureCase& failure, const FailureHost& host)
      : failure_(failure),
        host_(host),
        limits_(LimitsFrom(failure.config.experiment().limits())),
        out_(absl::StrCat(host.dir, "/out")),
        log_(absl::StrCat(host.dir, "/compare.log")) {}
  ~Run() { Clear(); }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  absl::StatusOr<StruckRun> Execute() {
    const std::string spec = absl::StrCat(host_.dir, "/spec.textproto");
    RETURN_IF_ERROR(WriteFileAtomically(spec, CanonicalText(ExperimentOf(failure_))));
    start_ns_ = host_.clock->NowNs();
    ASSIGN_OR_RETURN(pid_, Spawn({absl::StrCat(host_.program_dir, "/lockstep"), "compare", spec,
                                  "--plain", "--out", out_},
                                 log_));
    RETURN_IF_ERROR(AwaitStep());
    RETURN_IF_ERROR(Strike());
    RETURN_IF_ERROR(AwaitEnd());
    Read();
    if (absl::StatusOr<RunFile> file = ReadRunJson(absl::StrCat(out_, "/run.json")); file.ok()) {
      run_.file = *std::move(file);
    }
    Clear();
    return std::move(run_);
  }

 private:
  bool coordinator_struck() const { return failure_.role == kCoordinatorRole; }

  void Read() {
    const std::string records = absl::StrCat(out_, "/blocks/1-", failure_.config.variant().name(),
                                             "-seed-", failure_.config.seed(), "/records");
    const auto read = [&](const char* role, int count) {
      std::vector<MemberHistory> members;
      for (int i = 0; i < count; ++i) {
        auto history = ReadMember(records, role, i);  // none yet: not begun
        members.push_back({absl::StrCat(role, " ", i), {}});
        if (history.ok()) members.back().records = *std::move(history);
      }
      return members;
    };
    run_.workers = read("worker", failure_.config.world_size());
    run_.servers = read("server", failure_.config.servers());
  }

  // Of every worker.
  int64_t FinishedStep() const {
    int64_t least = INT64_MAX;
    for (const MemberHistory& worker : run_.workers) {
      int64_t last = 0;
      for (const Record& record : worker.records) {
        if (record.has_step()) last = record.step().step();
      }
      least = std::min(least, last);
    }
    return least;
  }

  // [member]: all processes that have begun a record, replacements too.
  std::vector<std::pair<std::string, pid_t>> Pids() const {
    std::vector<std::pair<std::string, pid_t>> pids;
    for (const auto* members : {&run_.workers, &run_.servers}) {
      for (const MemberHistory& member : *members) {
        for (const Record& record : member.records) {
          if (!record.has_started()) continue;
          pids.emplace_back(member.name, static_cast<pid_t>(record.started().pid()));
        }
      }
    }
    return pids;
  }

  absl::Status Look() {
    pollfd fd{host_.abort->fd(), POLLIN, 0};
    poll(&fd, 1, kLookMs);
    RETURN_IF_ERROR(host_.abort->status());
    int status = 0;
    if (code_ < 0 && waitpid(pid_, &status, WNOHANG) == pid_) code_ = CodeOf(status);
    return absl::OkStatus();
  }

  absl::Status AwaitStep() {
    const int64_t bound_ms = limits_.join_timeout_ms + limits_.connect_timeout_ms +
                             limits_.sync_timeout_ms * failure_.step + kSpareMs;
    do {
      RETURN_IF_ERROR(Look());
      Read();
      if (code_ >= 0) {
        return absl::InternalError(
            absl::StrCat(failure_.id, ": ended with code ", code_, " before ", failure_.Target(),
                         " could be struck after step ", failure_.step, "; its output is ", log_));
      }
      if ((host_.clock->NowNs() - start_ns_) / kNsPerMs > bound_ms) {
        return absl::DeadlineExceededError(absl::StrCat(failure_.id, ": has not finished step ",
                                                        failure_.step, " after ", bound_ms,
                                                        " ms; its output is ", log_));
      }
    } while (FinishedStep() < failure_.step);
    return absl::OkStatus();
  }

  absl::Status Strike() {
    pid_t target = pid_;
    for (const auto& [name, pid] : Pids()) {
      if (name == failure_.Target()) target = pid;
    }
    if (target == pid_ && !coordinator_struck()) {
      return absl::InternalError(
          absl::StrCat(failure_.id, ": ", failure_.Target(), " has begun no record"));
    }
    run_.strike_ns = host_.clock->NowNs();
    if (kill(target, failure_.kind == Fault::KILL ? SIGKILL : SIGSTOP) != 0) {
      return ErrnoStatus(errno, absl::StrCat("cannot strike ", failure_.Target()));
    }
    return absl::OkStatus();
  }

  // All bounds that may have to pass one after the other, and the rest of the training.
  int64_t BoundMs() const {
    const int64_t before_ms = (run_.strike_ns - start_ns_) / kNsPerMs;
    const int64_t steps = failure_.config.experiment().train().steps();
    return limits_.lease_ms + limits_.sync_timeout_ms + limits_.settle_ms +
           limits_.rebuild_timeout_ms + limits_.stop_grace_ms + kSpareMs +
           kSlower * before_ms * steps / std::max<int64_t>(1, failure_.step);
  }

  absl::Status AwaitEnd() {
    const int64_t deadline_ns = run_.strike_ns + BoundMs() * kNsPerMs;
    bool woken = false;
    while (true) {
      RETURN_IF_ERROR(Look());
      const bool killed = coordinator_struck() && failure_.kind == Fault::KILL;
      if (code_ >= 0 && !killed) break;
      if (coordinator_struck() && MembersGone()) {
        if (killed) break;
        if (!woken) kill(pid_, SIGCONT);
        woken = true;
      }
      run_.hung = host_.clock->NowNs() > deadline_ns;
      if (run_.hung) return absl::OkStatus();  // the destructor ends what is left
    }
    run_.exit_code = coordinator_struck() && failure_.kind == Fault::KILL ? members_code_ : code_;
    return absl::OkStatus();
  }

  // Takes the exit codes of those that are children of this process now.
  bool MembersGone() {
    Read();
    bool gone = true;
    for (const auto& [name, pid] : Pids()) {
      if (!Gone(pid)) gone = false;
      int status = 0;
      if (waitpid(pid, &status, WNOHANG) == pid) {
        members_code_ = std::max(members_code_, CodeOf(status));
      }
    }
    return gone;
  }

  // Ends the command, which ends its members; then whatever is left all the same.
  void Clear() {
    if (pid_ <= 0) return;
    if (code_ < 0) {
      kill(pid_, SIGCONT);
      kill(pid_, SIGTERM);
      const int64_t deadline_ns =
          host_.clock->NowNs() + (limits_.stop_grace_ms + kSpareMs) * kNsPerMs;
      int status = 0;
      while (waitpid(pid_, &status, WNOHANG) == 0) {
        if (host_.clock->NowNs() > deadline_ns) kill(pid_, SIGKILL);
        poll(nullptr, 0, kLookMs);
      }
    }
    pid_ = -1;
    for (const auto& [name, pid] : Pids()) {
      if (waitpid(pid, nullptr, WNOHANG) != 0) continue;  // 0: a child of ours by now, and alive
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }

  const FailureCase& failure_;
  const FailureHost& host_;
  const Limits limits_;
  const std::string out_;
  const std::string log_;
  pid_t pid_ = -1;        // of the command
  int code_ = -1;         // its exit code; -1: it lives
  int members_code_ = 0;  // the largest
  int64_t start_ns_ = 0;
  StruckRun run_;
};

}  // namespace

std::string FailureCase::Target() const {
  return role == kCoordinatorRole ? role : absl::StrCat(role, " ", index);
}

std::vector<FailureCase> FailureCases(const Experiment& experiment, int64_t step) {
  std::vector<FailureCase> cases;
  for (const Variant& variant : experiment.variant()) {
    for (const RunConfig& config : PlanRuns(experiment)) {
      const bool first_seed = config.seed() == experiment.train().seeds(0);
      if (config.variant().name() != variant.name() || config.block() != 0 || !first_seed) continue;
      FailureCase failure;
      failure.config = config;
      failure.id = RunId(experiment, variant, config.world_size());
      failure.step = step;
      const auto add = [&](const char* role, int index) {
        for (const Fault::Kind kind : {Fault::KILL, Fault::FREEZE}) {
          failure.role = role;
          failure.index = index;
          failure.kind = kind;
          cases.push_back(failure);
        }
      };
      if (config.servers() > 0) add("server", config.servers() / 2);
      add("worker", config.world_size() / 2);
      add(kCoordinatorRole, 0);
    }
  }
  return cases;
}

absl::StatusOr<StruckRun> RunAndStrike(const FailureCase& failure, const FailureHost& host) {
  return Run(failure, host).Execute();
}

}  // namespace lockstep
