// rank_main.cc: the program allreduce_rank: one rank of one contestant of `lockstep bench`. It
// sleeps until its turn, runs it and reports. It ends when its launcher does. Not for use by hand.
#include <sched.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/cpu_time.h"
#include "base/exit_code.h"
#include "base/launcher.h"
#include "base/member/program.h"
#include "base/status.h"
#include "experiments/bench/contestant.h"
#include "experiments/bench/protocol.h"
#include "experiments/bench/rank_program.h"
#include "experiments/bench/sockets.h"
#include "experiments/bench/values.h"

namespace lockstep {
namespace {

class AllReduceRank final : public TurnTaker {
 public:
  AllReduceRank(const ContestantOptions& options, std::unique_ptr<Contestant> contestant,
                const Clock& clock)
      : options_(options), contestant_(std::move(contestant)), clock_(clock) {}

  absl::StatusOr<std::string> Address() override { return contestant_->Address(); }
  absl::StatusOr<std::string> Connect(const std::vector<std::string>& addresses) override {
    return contestant_->Connect(addresses);
  }

  absl::StatusOr<TurnReport> Run(const Turn& turn) override {
    ASSIGN_OR_RETURN(const std::span<std::byte> buffer, contestant_->Begin(turn));
    if (turn.count * SizeOf(turn.dtype) > static_cast<int64_t>(buffer.size())) {
      return absl::InvalidArgumentError(
          absl::StrCat("turn of ", turn.count, " elements, buffer of ", buffer.size(), " bytes"));
    }
    void* const data = buffer.data();
    TurnReport report;
    FillInput(options_.rank, turn.dtype, turn.op, data, turn.count);
    for (int i = 0; i < turn.warmup; ++i) RETURN_IF_ERROR(contestant_->AllReduce(turn, data));
    const Sent sent_before = contestant_->sent();
    const int64_t cpu_start_ns = ProcessCpuNs();
    ASSIGN_OR_RETURN(report.times_ns, TimeEach(clock_, turn.operations,
                                               [&] { return contestant_->AllReduce(turn, data); }));
    report.cpu_ns = ProcessCpuNs() - cpu_start_ns;
    const Sent sent = contestant_->sent();
    if (sent.bytes >= 0) report.sent_bytes = (sent.bytes - sent_before.bytes) / turn.operations;
    if (sent.messages >= 0) {
      report.sent_messages = (sent.messages - sent_before.messages) / turn.operations;
    }
    if (turn.check) {
      FillInput(options_.rank, turn.dtype, turn.op, data, turn.count);
      RETURN_IF_ERROR(contestant_->AllReduce(turn, data));
      const int contributors = contestant_->contributors();
      report.correct = options_.rank >= contributors ||
                       FirstWrong(contributors, turn.dtype, turn.op, data, turn.count) < 0;
    }
    RETURN_IF_ERROR(contestant_->End());
    report.congestion = LookAtTcpSockets().congestion;
    report.choice = contestant_->Choice(turn);
    return report;
  }

 private:
  const ContestantOptions& options_;
  const std::unique_ptr<Contestant> contestant_;
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
  app.add_option("--engine", options.engine, "host, mpi, gloo, nccl, cuda or roof")->required();
  app.add_option("--link", options.link, "tcp, shm or gpu")->required();
  app.add_option("--rank", flags.rank, "this rank; for mpi mpirun says it");
  app.add_option("--world-size", options.world_size, "ranks")->required();
  app.add_option("--servers", options.servers, "ranks of ps_exchange that only sum");
  app.add_option("--channels", options.channels, "data connections a pair");
  app.add_option("--algorithms", algorithms,
                 "of the host engine, separated by commas; of cuda one");
  app.add_option("--nccl-lib", options.nccl.library, "NCCL's file");
  app.add_option("--token", options.token, "secret of this run");
  app.add_option("--bytes-max", options.bytes_max, "largest buffer")->required();
  app.add_flag("--bind", bind, "to the rank's core; mpirun does it for mpi");
  app.add_option("--timeout-ms", options.limits.sync_timeout_ms, "of one operation");
  if (const std::optional<int> code = ParseFlags(&app, argc, argv)) return *code;
  options.algorithms = absl::StrSplit(algorithms, ',', absl::SkipEmpty());
  options.library_dir = ProgramDir();
  options.nccl.variables = VariablesOf("NCCL_");
  flags.world_size = options.world_size;
  const absl::StatusOr<RankSource> source = FindRank(flags, MpirunVariable);
  if (!source.ok()) {
    std::fprintf(stderr, "allreduce_rank: %s\n", source.status().ToString().c_str());
    return ExitCodeFor(source.status());
  }
  options.rank = source->rank;
  const RankPlace place = {"allreduce_rank", control, options.rank, options.world_size};
  return RunRank(
      place,
      [&](const Clock& clock, const Abort& abort) -> absl::StatusOr<std::unique_ptr<TurnTaker>> {
        if (bind) RETURN_IF_ERROR(BindToCoreOf(options.rank));
        ASSIGN_OR_RETURN(std::unique_ptr<Contestant> contestant,
                         MakeContestant(options, clock, abort));
        return std::make_unique<AllReduceRank>(options, std::move(contestant), clock);
      });
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  return lockstep::RunProgram("allreduce_rank", lockstep::Main, argc, argv);
}
