// rank_main.cc: the program allreduce_rank: one rank of one contestant of `lockstep bench`. It
// sleeps until its turn, runs it and reports. It ends when its launcher does. Not for use by hand.
#include <sched.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/exit_code.h"
#include "base/launcher.h"
#include "base/member/program.h"
#include "base/status.h"
#include "experiments/bench/contestant.h"
#include "experiments/bench/line_channel.h"
#include "experiments/bench/protocol.h"
#include "experiments/bench/sockets.h"
#include "experiments/bench/values.h"

namespace lockstep {
namespace {

int64_t CpuNs() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return time.tv_sec * kNsPerSecond + time.tv_nsec;
}

class Rank {
 public:
  Rank(const ContestantOptions& options, Contestant* contestant, LineChannel* channel,
       const Clock& clock)
      : options_(options), contestant_(*contestant), channel_(*channel), clock_(clock) {}

  absl::Status Start() {
    ASSIGN_OR_RETURN(const std::string address, contestant_.Address());
    RETURN_IF_ERROR(Say(absl::StrCat("hello ", options_.rank, " ",
                                     address.empty() ? "-" : absl::BytesToHexString(address))));
    ASSIGN_OR_RETURN(const std::string line, channel_.Read(LineChannel::kNoDeadline));
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    if (words[0] != "start" || words.size() != static_cast<size_t>(options_.world_size) + 1) {
      return absl::InvalidArgumentError(absl::StrCat("expected start, got '", line, "'"));
    }
    std::vector<std::string> addresses;
    for (size_t i = 1; i < words.size(); ++i) {
      addresses.push_back(words[i] == "-" ? "" : absl::HexStringToBytes(words[i]));
    }
    ASSIGN_OR_RETURN(const std::string about, contestant_.Connect(addresses));
    return Say(absl::StrCat("ready ", about));
  }

  // Until the launcher closes the channel.
  absl::Status Serve() {
    while (true) {
      absl::StatusOr<std::string> line = channel_.Read(LineChannel::kNoDeadline);
      if (absl::IsUnavailable(line.status())) return absl::OkStatus();
      RETURN_IF_ERROR(line.status());
      ASSIGN_OR_RETURN(const Turn turn, ParseTurn(*line));
      ASSIGN_OR_RETURN(const TurnReport report, Run(turn));
      RETURN_IF_ERROR(Say(ToLine(report)));
    }
  }

  absl::Status Say(const std::string& line) {
    return channel_.Write(line, LineChannel::kNoDeadline);
  }

 private:
  absl::StatusOr<TurnReport> Run(const Turn& turn) {
    ASSIGN_OR_RETURN(const std::span<std::byte> buffer, contestant_.Begin(turn));
    if (turn.count * SizeOf(turn.dtype) > static_cast<int64_t>(buffer.size())) {
      return absl::InvalidArgumentError(
          absl::StrCat("turn of ", turn.count, " elements, buffer of ", buffer.size(), " bytes"));
    }
    void* const data = buffer.data();
    TurnReport report;
    FillInput(options_.rank, turn.dtype, turn.op, data, turn.count);
    for (int i = 0; i < turn.warmup; ++i) RETURN_IF_ERROR(contestant_.AllReduce(turn, data));
    const Sent sent_before = contestant_.sent();
    report.times_ns.reserve(static_cast<size_t>(turn.operations));
    const int64_t cpu_start_ns = CpuNs();
    int64_t last_ns = clock_.NowNs();
    for (int i = 0; i < turn.operations; ++i) {
      RETURN_IF_ERROR(contestant_.AllReduce(turn, data));
      const int64_t now_ns = clock_.NowNs();
      report.times_ns.push_back(now_ns - last_ns);
      last_ns = now_ns;
    }
    report.cpu_ns = CpuNs() - cpu_start_ns;
    const Sent sent = contestant_.sent();
    if (sent.bytes >= 0) report.sent_bytes = (sent.bytes - sent_before.bytes) / turn.operations;
    if (sent.messages >= 0) {
      report.sent_messages = (sent.messages - sent_before.messages) / turn.operations;
    }
    if (turn.check) {
      FillInput(options_.rank, turn.dtype, turn.op, data, turn.count);
      RETURN_IF_ERROR(contestant_.AllReduce(turn, data));
      const int contributors = contestant_.contributors();
      report.correct = options_.rank >= contributors ||
                       FirstWrong(contributors, turn.dtype, turn.op, data, turn.count) < 0;
    }
    RETURN_IF_ERROR(contestant_.End());
    report.congestion = LookAtTcpSockets().congestion;
    report.choice = contestant_.Choice(turn);
    return report;
  }

  const ContestantOptions& options_;
  Contestant& contestant_;
  LineChannel& channel_;
  const Clock& clock_;
};

// As mpirun binds its ranks: this process and its threads to come stay on the rank's core.
absl::Status BindToCoreOf(int rank) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof(cores), &cores) != 0) return ErrnoStatus(errno, "affinity");
  int skip = rank;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &cores) || skip-- > 0) continue;
    CPU_ZERO(&cores);
    CPU_SET(core, &cores);
    if (sched_setaffinity(0, sizeof(cores), &cores) == 0) return absl::OkStatus();
    return ErrnoStatus(errno, absl::StrCat("binding rank ", rank, " to core ", core));
  }
  return absl::FailedPreconditionError(absl::StrCat("no core for rank ", rank));
}

int RunRank(const ContestantOptions& options, const std::string& control, bool bind) {
  const MonotonicClock clock;
  const Abort abort;
  absl::StatusOr<UniqueFd> fd = ConnectTo(control);
  if (!fd.ok()) {
    std::fprintf(stderr, "allreduce_rank: %s\n", fd.status().ToString().c_str());
    return kExitInternal;
  }
  LineChannel channel(*std::move(fd), clock, abort);
  const auto run = [&]() -> absl::Status {
    if (bind) RETURN_IF_ERROR(BindToCoreOf(options.rank));
    ASSIGN_OR_RETURN(const std::unique_ptr<Contestant> contestant,
                     MakeContestant(options, clock, abort));
    Rank rank(options, contestant.get(), &channel, clock);
    RETURN_IF_ERROR(rank.Start());
    return rank.Serve();
  };
  const absl::Status status = run();
  if (status.ok()) return kExitOk;
  std::fprintf(stderr, "allreduce_rank: rank %d: %s\n", options.rank, status.ToString().c_str());
  // The launcher may be gone; the exit code tells it then.
  channel.Write(ToLine(status), clock.NowNs() + kNsPerSecond).IgnoreError();
  return ExitCodeFor(status);
}

// Of mpirun, which starts the MPI ranks. Those of a job around it, such as Slurm's, are not this
// process's.
std::optional<std::string> MpirunVariable(const char* name) {
  const char* const value = absl::StartsWith(name, "OMPI_") ? std::getenv(name) : nullptr;
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

int Main(int argc, char** argv) {
  CLI::App app("One rank of one contestant of `lockstep bench allreduce`", "allreduce_rank");
  ContestantOptions options;
  RankFlags flags;
  std::string control;
  std::string algorithms;
  bool bind = false;
  app.add_option("--control", control, "unix socket of the launcher")->required();
  app.add_option("--engine", options.engine, "host, mpi, gloo or roof")->required();
  app.add_option("--link", options.link, "tcp or shm")->required();
  app.add_option("--rank", flags.rank, "this rank; for mpi mpirun says it");
  app.add_option("--world-size", options.world_size, "ranks")->required();
  app.add_option("--servers", options.servers, "ranks of ps_exchange that only sum");
  app.add_option("--channels", options.channels, "data connections a pair");
  app.add_option("--algorithms", algorithms, "of the host engine, separated by commas");
  app.add_option("--token", options.token, "secret of this run");
  app.add_option("--bytes-max", options.bytes_max, "largest buffer")->required();
  app.add_flag("--bind", bind, "to the rank's core; mpirun does it for mpi");
  app.add_option("--timeout-ms", options.limits.sync_timeout_ms, "of one operation");
  if (const std::optional<int> code = ParseFlags(&app, argc, argv)) return *code;
  options.algorithms = absl::StrSplit(algorithms, ',', absl::SkipEmpty());
  options.library_dir = ProgramDir();
  flags.world_size = options.world_size;
  const absl::StatusOr<RankSource> source = FindRank(flags, MpirunVariable);
  if (!source.ok()) {
    std::fprintf(stderr, "allreduce_rank: %s\n", source.status().ToString().c_str());
    return ExitCodeFor(source.status());
  }
  options.rank = source->rank;
  return RunRank(options, control, bind);
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  return lockstep::RunProgram("allreduce_rank", lockstep::Main, argc, argv);
}
