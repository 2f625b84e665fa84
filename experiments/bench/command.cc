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
#include "experiments/analyse/proto_json.h"
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
    "  ./lockstep bench allreduce --peers nccl,cuda --ranks 2,4    (with a GPU for each rank)\n"
    "Exit codes: 0 success, 1 a result was wrong, 2 bad usage, 3 a rank was lost or did not "
    "answer,\n4 the environment lacks something, 5 internal error, 130/143 interrupted.\n";

constexpr char kCongestionHelp[] =
    "TCP congestion control of all, in a network namespace; default: the system's";

constexpr char kPsHelp[] =
    "Parameter servers without training: null steps (push and pull, with the servers' fold) over "
    "workers and servers,\nbeside what bare gRPC streams and TCP sockets carry in the same run, "
    "taking "
    "turns.\n";
constexpr char kPsExamples[] =
    "Examples:\n"
    "  ./lockstep bench ps --quick\n"
    "  ./lockstep bench ps --sizes 1MiB,64MiB --workers 1,2,4 --servers 1,2 --json\n"
    "  ./lockstep bench ps --sizes 1MiB,64MiB --rows 100 --row-floats 64 --servers 3\n"
    "Exit codes: 0 success, 1 a parameter was wrong, 2 bad usage, 3 a process was lost or did not "
    "answer,\n4 the environment lacks something, 5 internal error, 130/143 interrupted.\n";

constexpr char kGpuHelp[] =
    "Our kernels on this machine's GPUs without training: versions, the GPU's own copy as a roof, "
    "every kernel's results,\na sweep of settings and the best of them over sizes. At most six "
    "minutes.\n";
constexpr char kGpuExamples[] =
    "Examples:\n"
    "  ./lockstep bench gpu --quick\n"
    "  ./lockstep bench gpu --json > gpu.json\n"
    "Exit codes: 0 success, 1 a result was wrong, 3 the GPU failed, 4 there is no GPU or no CUDA "
    "toolkit was there\nto build with, 5 internal error, 130/143 interrupted.\n";

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

// What is known before and after, whatever was measured.
class BenchRun {
 public:
  BenchRun() : start_ns_(clock_.NowNs()) {}

  const Clock& clock() const { return clock_; }
  const Abort& abort() const { return abort_; }
  int signal() const { return signals_.received(); }
  void Say(const std::string& line) {
    host_.Sample();
    std::fprintf(stderr, "lockstep: bench: %s\n", line.c_str());
  }
  template <typename File>
  void Describe(const std::string& command_line, int processes, File* file) {
    *file->mutable_host() = host_.Describe(processes);
    file->set_command(command_line);
    file->set_build(BuildId());
    file->set_started_at(started_at_);
    file->set_load_before(load_before_);
    file->set_duration_s(static_cast<double>(clock_.NowNs() - start_ns_) / kNsPerSecond);
  }

 private:
  Abort abort_;
  const SignalWatch signals_{&abort_};
  const MonotonicClock clock_;
  const int64_t start_ns_;
  const std::string started_at_ =
      absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::Now(), absl::UTCTimeZone());
  const std::string load_before_ = FirstLine("/proc/loadavg");
  HostWatch host_;
};

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
  AddAllReduce();
  AddPs();
  AddGpu();
}

void BenchCommand::AddAllReduce() {
  CLI::App* all_reduce = app_->add_subcommand("allreduce", kHelp);
  all_reduce->footer(kExamples);
  BenchArguments& a = arguments_;
  all_reduce->add_option("--sizes", a.sizes, "FROM:TO:FACTOR or a list, of one rank's bytes");
  all_reduce->add_option("--ranks", a.ranks, "how many ranks, a list");
  all_reduce->add_option("--algorithms", a.algorithms,
                         "ours, a list; also auto, reduce_broadcast, reduce_scatter_all_gather");
  all_reduce->add_option("--links", a.links, "tcp, shm");
  all_reduce->add_option("--peers", a.peers, "mpi, gloo, nccl, cuda, or none");
  all_reduce
      ->add_option("--nccl-lib", a.nccl_library,
                   "NCCL's file (default libnccl.so.2, where the loader finds it)")
      ->envname("LOCKSTEP_NCCL_LIB");
  all_reduce->add_option("--dtype", a.dtype, "f32, f64, f16, bf16, i32, i64, u8");
  all_reduce->add_option("--op", a.op, "sum, avg, min, max, prod");
  all_reduce->add_option("--warmup", a.warmup, "operations before each turn's timed ones");
  all_reduce->add_option("--rounds", a.rounds, "turns of each contestant at each size");
  all_reduce->add_option("--seconds", a.seconds, "no round of a size begins later than that");
  all_reduce->add_option("--channels", a.channels,
                         "connections a pair of our ranks has over TCP: a list");
  all_reduce->add_option("--servers", a.servers, "ranks beside the others, of ps_exchange");
  all_reduce->add_option("--timeout-ms", a.timeout_ms, "of one operation");
  all_reduce->add_option("--congestion", a.congestion, kCongestionHelp);
  all_reduce->add_option("--csv", a.csv, "file for the rows");
  all_reduce->add_flag("--json", a.json, "print JSON (lockstep.bench/1) instead of the table");
  all_reduce->add_flag("--quick", a.quick, "less of everything: done within a minute");
}

void BenchCommand::AddPs() {
  ps_ = app_->add_subcommand("ps", kPsHelp);
  ps_->footer(kPsExamples);
  PsBenchArguments& a = ps_arguments_;
  ps_->add_option("--sizes", a.sizes, "FROM:TO:FACTOR or a list, of one worker's gradients");
  ps_->add_option("--workers", a.workers, "how many workers, a list");
  ps_->add_option("--servers", a.servers, "how many servers, a list");
  ps_->add_option("--rows", a.rows,
                  "push and pull so many rows of a table of each size, and nothing else");
  ps_->add_option("--row-floats", a.row_floats, "of a row, a divisor of 1024");
  ps_->add_option("--rounds", a.rounds, "turns of each contestant");
  ps_->add_option("--timeout-ms", a.timeout_ms, "of one step");
  ps_->add_option("--congestion", a.congestion, kCongestionHelp);
  ps_->add_flag("--json", a.json, "print JSON (lockstep.bench/1) instead of the table");
  ps_->add_flag("--quick", a.quick, "less of everything: done within half a minute");
}

void BenchCommand::AddGpu() {
  gpu_ = app_->add_subcommand("gpu", kGpuHelp);
  gpu_->footer(kGpuExamples);
  gpu_->add_flag("--json", gpu_arguments_.json,
                 "print JSON (lockstep.bench/1) instead of the table");
  gpu_->add_flag("--quick", gpu_arguments_.quick, "few lengths and settings: is everything right?");
}

int BenchCommand::Run(const std::string& command_line, const std::string& program_dir) const {
  if (gpu_->parsed()) return RunGpu(command_line, program_dir);
  return ps_->parsed() ? RunPs(command_line, program_dir) : RunAllReduce(command_line, program_dir);
}

int BenchCommand::RunPs(const std::string& command_line, const std::string& program_dir) const {
  const absl::StatusOr<PsBenchOptions> options = ReadPsOptions(ps_arguments_);
  if (!options.ok()) return Fail(options.status(), 0);
  if (!ps_arguments_.congestion.empty()) {
    const absl::Status status = UseCongestionControl(ps_arguments_.congestion);
    if (!status.ok()) return Fail(status, 0);
  }
  BenchRun run;
  absl::StatusOr<PsBenchFile> file = RunPsBench(*options, program_dir, run.clock(), run.abort(),
                                                [&](const std::string& line) { run.Say(line); });
  if (!file.ok()) return Fail(file.status(), run.signal());
  run.Describe(command_line, options->workers.back() + options->servers.back(), &*file);
  file->add_notes(
      "All processes share this machine's cores; other load was not controlled. Contestants take "
      "turns in random order, so it meets them alike.");
  std::string text = PsBenchText(*file);
  if (ps_arguments_.json) {
    absl::StatusOr<std::string> json = ToJson(*file, {"bench file", kBenchSchema});
    if (!json.ok()) return Fail(json.status(), 0);
    text = *std::move(json);
  }
  std::fputs(text.c_str(), stdout);
  const bool correct = std::all_of(file->rows().begin(), file->rows().end(),
                                   [](const PsBenchRow& row) { return row.correct(); });
  return correct ? kExitOk : kExitPromiseBroken;
}

int BenchCommand::RunGpu(const std::string& command_line, const std::string& program_dir) const {
  BenchRun run;
  absl::StatusOr<GpuBenchResult> result =
      RunGpuBench(gpu_arguments_, program_dir, run.clock(), run.abort());
  if (!result.ok()) return Fail(result.status(), run.signal());
  run.Describe(command_line, /*processes=*/1, &result->file);
  std::string text = result->table;
  if (gpu_arguments_.json) {
    absl::StatusOr<std::string> json = ToJson(result->file, {"bench file", kBenchSchema});
    if (!json.ok()) return Fail(json.status(), 0);
    text = *std::move(json);
  }
  std::fputs(text.c_str(), stdout);
  if (!result->status.ok()) return Fail(result->status, run.signal());
  return result->file.correctness().wrong().empty() ? kExitOk : kExitPromiseBroken;
}

int BenchCommand::RunAllReduce(const std::string& command_line,
                               const std::string& program_dir) const {
  const absl::StatusOr<BenchOptions> options = ReadOptions(arguments_);
  if (!options.ok()) return Fail(options.status(), 0);
  if (!arguments_.congestion.empty()) {
    const absl::Status status = UseCongestionControl(arguments_.congestion);
    if (!status.ok()) return Fail(status, 0);
  }
  BenchRun run;
  absl::StatusOr<BenchResult> result =
      RunAllReduceBench(*options, program_dir, run.clock(), run.abort(),
                        [&](const std::string& line) { run.Say(line); });
  if (!result.ok()) return Fail(result.status(), run.signal());
  BenchFile& file = result->file;
  if (!file.rows().empty()) {
    const int most = *std::max_element(options->ranks.begin(), options->ranks.end());
    run.Describe(command_line, most, &file);
    for (const std::string& note : StandingNotes(file)) file.add_notes(note);
    const absl::Status printed = Print(arguments_, file);
    if (!printed.ok()) return Fail(printed, 0);
  }
  if (!result->status.ok()) return Fail(result->status, run.signal());
  const bool correct = std::all_of(file.rows().begin(), file.rows().end(),
                                   [](const BenchRow& row) { return row.correct(); });
  return correct ? kExitOk : kExitPromiseBroken;
}

}  // namespace lockstep
