#include "experiments/bench/command.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/exit_code.h"
#include "base/member/member.h"
#include "base/member/signals.h"
#include "base/status.h"
#include "experiments/analyse/atomic_file.h"
#include "experiments/bench/bench.h"
#include "experiments/bench/bench_json.h"
#include "experiments/bench/congestion.h"
#include "experiments/bench/table.h"
#include "experiments/cli/host.h"

namespace lockstep {
namespace {

constexpr char kHelp[] =
    "All-reduce without training: our algorithms over TCP and shared memory, Open MPI and Gloo in "
    "the same table\nof the same run, taking turns, every element checked, in the habits of "
    "nccl-tests.\n";
constexpr char kExamples[] =
    "Examples:\n"
    "  ./lockstep bench allreduce --quick\n"
    "  ./lockstep bench allreduce --sizes 4:64MiB:4 --ranks 2,4,8 --congestion cubic\n"
    "  ./lockstep bench allreduce --algorithms ring,tree,auto --links tcp --peers none --json\n"
    "Exit codes: 0 success, 1 a result was wrong, 2 bad usage, 3 a rank was lost or did not "
    "answer,\n4 the environment lacks something, 5 internal error, 130/143 interrupted.\n";

std::string FirstLine(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

int Fail(const absl::Status& status, int signal) {
  std::fprintf(stderr, "lockstep: %s\n", std::string{status.message()}.c_str());
  return signal == 0 ? ExitCodeFor(status) : 128 + signal;
}

absl::Status Print(const BenchArguments& arguments, const BenchFile& file) {
  if (!arguments.csv.empty()) RETURN_IF_ERROR(WriteFileAtomically(arguments.csv, BenchCsv(file)));
  std::string text = BenchText(file);
  if (arguments.json) {
    ASSIGN_OR_RETURN(text, BenchToJson(file));
  }
  std::fputs(text.c_str(), stdout);
  return absl::OkStatus();
}

}  // namespace

BenchCommand::BenchCommand(CLI::App* app)
    : app_(app->add_subcommand("bench", "one mechanism without training")) {
  app_->require_subcommand(1);
  CLI::App* all_reduce = app_->add_subcommand("allreduce", kHelp);
  all_reduce->footer(kExamples);
  BenchArguments& a = arguments_;
  all_reduce->add_option("--sizes", a.sizes, "FROM:TO:FACTOR or a list, of one rank's bytes");
  all_reduce->add_option("--ranks", a.ranks, "how many ranks, a list");
  all_reduce->add_option("--algorithms", a.algorithms,
                         "ours, a list; also auto, reduce_broadcast, reduce_scatter_all_gather");
  all_reduce->add_option("--links", a.links, "tcp, shm");
  all_reduce->add_option("--peers", a.peers, "mpi, gloo, or none");
  all_reduce->add_option("--dtype", a.dtype, "f32, f64, f16, bf16, i32, i64, u8");
  all_reduce->add_option("--op", a.op, "sum, avg, min, max, prod");
  all_reduce->add_option("--warmup", a.warmup, "operations before each turn's timed ones");
  all_reduce->add_option("--rounds", a.rounds, "turns of each contestant at each size");
  all_reduce->add_option("--seconds", a.seconds, "no round of a size begins later than that");
  all_reduce->add_option("--channels", a.channels, "connections a pair of our ranks has");
  all_reduce->add_option("--servers", a.servers, "ranks beside the others, of ps_exchange");
  all_reduce->add_option("--timeout-ms", a.timeout_ms, "of one operation");
  all_reduce->add_option("--congestion", a.congestion,
                         "TCP congestion control of all, in a network namespace; default: the "
                         "system's");
  all_reduce->add_option("--csv", a.csv, "file for the rows");
  all_reduce->add_flag("--json", a.json, "print JSON (lockstep.bench/1) instead of the table");
  all_reduce->add_flag("--quick", a.quick, "less of everything: done within a minute");
}

int BenchCommand::Run(const std::string& command_line, const std::string& program_dir) const {
  const absl::StatusOr<BenchOptions> options = ReadOptions(arguments_);
  if (!options.ok()) return Fail(options.status(), 0);
  if (!arguments_.congestion.empty()) {
    const absl::Status status = UseCongestionControl(arguments_.congestion);
    if (!status.ok()) return Fail(status, 0);
  }
  Abort abort;
  const SignalWatch signals(&abort);
  const MonotonicClock clock;
  const int64_t start_ns = clock.NowNs();
  const std::string started_at =
      absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::Now(), absl::UTCTimeZone());
  const std::string load_before = FirstLine("/proc/loadavg");
  HostWatch host;
  absl::StatusOr<BenchFile> file =
      RunAllReduceBench(*options, program_dir, clock, abort, [&](const std::string& line) {
        host.Sample();
        std::fprintf(stderr, "lockstep: bench: %s\n", line.c_str());
      });
  if (!file.ok()) return Fail(file.status(), signals.received());
  const int most = *std::max_element(options->ranks.begin(), options->ranks.end());
  *file->mutable_host() = host.Describe(most);
  file->set_command(command_line);
  file->set_build(BuildId());
  file->set_started_at(started_at);
  file->set_load_before(load_before);
  file->set_duration_s(static_cast<double>(clock.NowNs() - start_ns) / kNsPerSecond);
  for (const std::string& note : StandingNotes(*file)) file->add_notes(note);
  const absl::Status printed = Print(arguments_, *file);
  if (!printed.ok()) return Fail(printed, 0);
  const bool correct = std::all_of(file->rows().begin(), file->rows().end(),
                                   [](const BenchRow& row) { return row.correct(); });
  return correct ? kExitOk : kExitPromiseBroken;
}

}  // namespace lockstep
