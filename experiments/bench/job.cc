#include "experiments/bench/job.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/exit_code.h"
#include "base/status.h"

namespace lockstep {
namespace {

constexpr char kMpirun[] = "/usr/bin/mpirun";
constexpr int64_t kLookMs = 100;  // at processes that may have ended before they spoke
constexpr size_t kLogLines = 5;

// PEERS.md: what Open MPI needs where ranks share cores, and where root starts them.
std::vector<std::string> MpirunCommand(const JobSpec& spec) {
  std::vector<std::string> command = {kMpirun, "--oversubscribe"};
  if (geteuid() == 0) command.emplace_back("--allow-run-as-root");
  const auto set = [&](const char* name, const std::string& value) {
    for (const std::string& word : {std::string("--mca"), std::string(name), value}) {
      command.push_back(word);
    }
  };
  set("pml", "ob1");
  set("mpi_yield_when_idle", "1");
  set("coll_tuned_use_dynamic_rules", "1");  // the ranks then set the algorithm
  if (spec.link == "shm") {
    set("btl", "vader,self");
  } else {
    set("btl", "tcp,self");
    set("btl_tcp_if_include", "lo");
    set("btl_tcp_links", absl::StrCat(spec.mpi_connections));
  }
  command.emplace_back("--bind-to");
  command.emplace_back(spec.Bound() ? "core" : "none");
  command.emplace_back("-n");
  command.push_back(absl::StrCat(spec.world_size()));
  return command;
}

std::string LastLines(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (line.empty()) continue;
    lines.push_back(line);
    if (lines.size() > kLogLines) lines.erase(lines.begin());
  }
  return lines.empty() ? "" : absl::StrCat("; its last words: ", absl::StrJoin(lines, " | "));
}

// "rank 3" of several; a job's error says which job.
std::string RankText(int rank) { return absl::StrCat("rank ", rank); }

}  // namespace

std::string JobSpec::Setting() const {
  if (!nccl_algorithm.empty()) return absl::StrCat("NCCL_ALGO=", nccl_algorithm);
  if (mpi_connections == 0) return channels == 1 ? "" : absl::StrCat(channels, " channels");
  return absl::StrCat(mpi_connections, mpi_connections == 1 ? " connection" : " connections");
}

std::string JobSpec::Name() const {
  const std::string setting = Setting();
  return absl::StrCat(engine, link.empty() ? "" : " over ", link, setting.empty() ? "" : ", ",
                      setting, ", ", ranks, link.empty() ? " workers" : " ranks",
                      servers == 0 ? "" : absl::StrCat(" and ", servers, " servers"));
}

absl::StatusOr<std::unique_ptr<Job>> Job::Start(const JobSpec& spec, JobHost* host) {
  std::unique_ptr<Job> job(new Job(spec, host));
  job->first_ = host->started;
  const std::string control = absl::StrCat(host->work_dir, "/", host->started, ".socket");
  ASSIGN_OR_RETURN(const UniqueFd listener, ListenAt(control));
  RETURN_IF_ERROR(job->Spawn(control));
  RETURN_IF_ERROR(Annotate(job->Welcome(listener), spec.Name()));
  ASSIGN_OR_RETURN(const std::vector<std::string> ready,
                   job->HearAll(host->limits.connect_timeout_ms * kNsPerMs * 2));
  job->about_ = ready[0].substr(std::min(ready[0].size(), ready[0].find(' ') + 1));
  return job;
}

std::string Job::LogPath(int process) const {
  return absl::StrCat(host_.work_dir, "/", process, ".log");
}

std::vector<std::string> Job::RankCommand(const std::string& control) const {
  std::vector<std::string> command = {absl::StrCat(host_.program_dir, "/", spec_.program),
                                      "--control",
                                      control,
                                      "--engine",
                                      spec_.engine,
                                      "--world-size",
                                      absl::StrCat(spec_.world_size()),
                                      "--servers",
                                      absl::StrCat(spec_.servers),
                                      "--token",
                                      host_.token,
                                      "--bytes-max",
                                      absl::StrCat(host_.bytes_max),
                                      "--timeout-ms",
                                      absl::StrCat(host_.limits.sync_timeout_ms)};
  if (spec_.rows > 0) {
    command.push_back(absl::StrCat("--rows=", spec_.rows));
    command.push_back(absl::StrCat("--row-floats=", spec_.row_floats));
  }
  if (!spec_.nccl_library.empty()) {
    command.push_back(absl::StrCat("--nccl-lib=", spec_.nccl_library));
  }
  if (!spec_.link.empty()) {
    for (const std::string& word : {std::string("--link"), spec_.link, std::string("--channels"),
                                    absl::StrCat(spec_.channels), std::string("--algorithms"),
                                    absl::StrJoin(spec_.algorithms, ",")}) {
      command.push_back(word);
    }
  }
  return command;
}

absl::Status Job::Spawn(const std::string& control) {
  const bool mpi = spec_.engine == "mpi";
  const int processes = mpi ? 1 : spec_.world_size();
  std::vector<std::string> environment;
  if (!spec_.nccl_algorithm.empty()) environment.push_back(spec_.Setting());
  for (int i = 0; i < processes; ++i) {
    std::vector<std::string> command = mpi ? MpirunCommand(spec_) : std::vector<std::string>();
    for (const std::string& word : RankCommand(control)) command.push_back(word);
    if (!mpi) {
      command.emplace_back("--rank");
      command.push_back(absl::StrCat(i));
      if (spec_.Bound()) command.emplace_back("--bind");
    }
    const int process = host_.started++;
    RETURN_IF_ERROR(
        host_.processes.Spawn({.index = process}, command, environment, LogPath(process)));
  }
  return absl::OkStatus();
}

// Until every rank has said hello; then all hear where the others are.
absl::Status Job::Welcome(const UniqueFd& listener) {
  const auto n = static_cast<size_t>(spec_.world_size());
  const int64_t deadline_ns = host_.clock->NowNs() + host_.limits.connect_timeout_ms * kNsPerMs;
  std::vector<std::string> addresses(n);
  channels_.resize(n);
  for (size_t known = 0; known < n;) {
    RETURN_IF_ERROR(host_.abort->status());
    for (const MemberExit& exit : host_.processes.Reap()) host_.exits[exit.member.index] = exit;
    for (size_t rank = 0; rank < n; ++rank) {
      if (channels_[rank] == nullptr && host_.exits.contains(ProcessOf(static_cast<int>(rank)))) {
        return absl::UnavailableError(HowItEnded(static_cast<int>(rank)));
      }
    }
    if (host_.clock->NowNs() > deadline_ns) {
      return absl::DeadlineExceededError(absl::StrCat(known, " of ", n, " ranks came within ",
                                                      host_.limits.connect_timeout_ms, " ms",
                                                      LastLines(LogPath(first_))));
    }
    pollfd wait[] = {{listener.get(), POLLIN, 0}, {host_.abort->fd(), POLLIN, 0}};
    if (poll(wait, 2, kLookMs) <= 0 || wait[0].revents == 0) continue;
    UniqueFd fd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd.valid()) continue;
    auto channel = std::make_unique<LineChannel>(std::move(fd), *host_.clock, *host_.abort);
    ASSIGN_OR_RETURN(const std::string line, channel->Read(deadline_ns));
    RETURN_IF_ERROR(ErrorOf(line));
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    size_t rank = n;
    if (words.size() != 3 || words[0] != "hello" || !absl::SimpleAtoi(words[1], &rank) ||
        rank >= n || channels_[rank] != nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("a rank said '", line, "'"));
    }
    addresses[rank] = words[2];
    channels_[rank] = std::move(channel);
    ++known;
  }
  return SayToAll(absl::StrCat("start ", absl::StrJoin(addresses, " ")));
}

absl::Status Job::SayToAll(const std::string& line) {
  const int64_t deadline_ns = host_.clock->NowNs() + host_.limits.sync_timeout_ms * kNsPerMs;
  for (const auto& channel : channels_) {
    // A rank that is gone is seen when its answer is awaited, with its reason.
    absl::Status status = channel->Write(line, deadline_ns);
    if (!status.ok() && !absl::IsUnavailable(status)) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> Job::HearAll(int64_t wait_ns) {
  std::vector<absl::StatusOr<std::string>> heard(channels_.size(),
                                                 absl::DeadlineExceededError("no answer"));
  int64_t deadline_ns = host_.clock->NowNs() + wait_ns;
  bool failed = false;
  while (true) {
    RETURN_IF_ERROR(host_.abort->status());
    std::vector<pollfd> wait = {{host_.abort->fd(), POLLIN, 0}};
    for (size_t rank = 0; rank < channels_.size(); ++rank) {
      if (!absl::IsDeadlineExceeded(heard[rank].status())) continue;
      heard[rank] = channels_[rank]->Read(/*deadline_ns=*/0);
      if (absl::IsDeadlineExceeded(heard[rank].status())) {
        wait.push_back({channels_[rank]->fd(), POLLIN, 0});
      } else if (!failed && (!heard[rank].ok() || !ErrorOf(*heard[rank]).ok())) {
        // The others' part of the explanation is on its way.
        failed = true;
        deadline_ns = std::min(
            deadline_ns, host_.clock->NowNs() +
                             (host_.limits.settle_ms + host_.limits.answer_grace_ms) * kNsPerMs);
      }
    }
    const int64_t left_ns = deadline_ns - host_.clock->NowNs();
    if (wait.size() == 1 || left_ns <= 0) break;
    const timespec left{left_ns / kNsPerSecond, left_ns % kNsPerSecond};
    if (ppoll(wait.data(), wait.size(), &left, nullptr) < 0 && errno != EINTR) {
      return ErrnoStatus(errno, "bench: poll");
    }
  }
  std::vector<std::string> lines;
  for (const auto& line : heard) {
    if (!line.ok() || !ErrorOf(*line).ok()) return Explain(heard);
    lines.push_back(*line);
  }
  return lines;
}

// A rank that ended without a word is the cause; then what ranks say themselves, unless they only
// say that others did not answer; then who is silent.
absl::Status Job::Explain(const std::vector<absl::StatusOr<std::string>>& heard) {
  std::vector<std::string> dead;
  std::vector<std::string> silent;
  std::vector<std::string> how;
  absl::Status own;
  for (size_t i = 0; i < heard.size(); ++i) {
    const int rank = static_cast<int>(i);
    if (absl::IsDeadlineExceeded(heard[i].status())) {
      silent.push_back(RankText(rank));
    } else if (!heard[i].ok()) {
      dead.push_back(RankText(rank));
      if (how.empty()) how.push_back(HowItEnded(rank));
    } else if (own.ok() && !ErrorOf(*heard[i]).ok()) {
      own = Annotate(ErrorOf(*heard[i]), RankText(rank));
    }
  }
  if (!dead.empty()) {
    const absl::Status status = absl::UnavailableError(
        absl::StrCat(spec_.Name(), ": lost ", absl::StrJoin(dead, ", "), ": ",
                     absl::StrJoin(how, "; "), own.ok() ? "" : absl::StrCat("; ", own.message())));
    return Blame(status, dead);
  }
  const std::string no_answer =
      silent.empty() ? ""
                     : absl::StrCat("no answer from ", absl::StrJoin(silent, ", "),
                                    " (--timeout-ms ", host_.limits.sync_timeout_ms, ")");
  if (own.ok()) {
    own = absl::DeadlineExceededError(no_answer);
  } else if (!silent.empty()) {
    own = Annotate(own, no_answer);
  }
  if (BlamedBy(own).empty()) own = Blame(own, silent);
  return Annotate(own, spec_.Name());
}

std::string Job::HowItEnded(int rank) {
  const int process = ProcessOf(rank);
  // Its socket closes a moment before its process can be waited for.
  const int64_t deadline_ns = host_.clock->NowNs() + host_.limits.settle_ms * kNsPerMs;
  do {
    for (const MemberExit& exit : host_.processes.Reap()) host_.exits[exit.member.index] = exit;
    if (host_.exits.contains(process)) break;
    poll(nullptr, 0, 10);
  } while (host_.clock->NowNs() < deadline_ns);
  const auto exit = host_.exits.find(process);
  const std::string how = exit == host_.exits.end() ? "closed its connection" : exit->second.how;
  return absl::StrCat(spec_.engine == "mpi" ? "mpirun" : RankText(rank), " ", how,
                      LastLines(LogPath(process)));
}

absl::StatusOr<std::vector<TurnReport>> Job::Run(const Turn& turn, int64_t expected_ns) {
  RETURN_IF_ERROR(SayToAll(ToLine(turn)));
  // A rank's own deadline comes first and says more; this one is for ranks that have none.
  const int64_t wait_ns =
      2 * host_.limits.sync_timeout_ms * kNsPerMs + 4 * std::max<int64_t>(0, expected_ns);
  ASSIGN_OR_RETURN(const std::vector<std::string> lines, HearAll(wait_ns));
  std::vector<TurnReport> reports;
  for (const std::string& line : lines) {
    ASSIGN_OR_RETURN(TurnReport report, ParseReport(line));
    if (report.times_ns.size() != static_cast<size_t>(turn.operations)) {
      return absl::InternalError(absl::StrCat(spec_.Name(), ": ", report.times_ns.size(),
                                              " times for ", turn.operations, " operations"));
    }
    reports.push_back(std::move(report));
  }
  return reports;
}

void Job::Stop() {
  const int end = first_ + (spec_.engine == "mpi" ? 1 : spec_.world_size());
  // mpirun takes its ranks with it if it is asked to end.
  host_.processes.Signal(spec_.engine == "mpi" ? SIGTERM : SIGKILL,
                         [&](const MemberId& member, pid_t /*pid*/) {
                           return member.index >= first_ && member.index < end;
                         });
  channels_.clear();
}

void StopJobs(std::vector<std::unique_ptr<Job>>* jobs, JobHost* host) {
  constexpr int kPollMs = 5;
  jobs->clear();
  // A frozen one cannot see that nobody talks to it any more.
  for (const int signal : {SIGCONT, SIGTERM, SIGKILL}) {
    host->processes.SignalAll(signal);
    const int64_t deadline_ns = host->clock->NowNs() + host->limits.stop_grace_ms * kNsPerMs;
    while (!host->processes.empty() && host->clock->NowNs() < deadline_ns) {
      host->processes.Reap();
      poll(nullptr, 0, kPollMs);
    }
  }
  host->exits.clear();
}

}  // namespace lockstep
