#include "experiments/cli/compare.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "allreduce/engine.h"
#include "base/abort.h"
#include "base/clock.h"
#include "base/exit_code.h"
#include "base/member/signals.h"
#include "base/status.h"
#include "experiments/analyse/run_json.h"
#include "experiments/analyse/terminal.h"
#include "experiments/analyse/verdict.h"
#include "experiments/cli/dry_run.h"
#include "experiments/cli/host.h"
#include "experiments/cli/listen.h"
#include "experiments/cli/out_dir.h"
#include "experiments/cli/progress.h"
#include "experiments/cli/results.h"
#include "experiments/coordinator/run.h"
#include "worker/gpu/open_device.h"
#include "worker/sync/nccl_words.h"
#include "worker/sync/spec_words.h"

namespace lockstep {
namespace {

constexpr char kQuickstart[] = "quickstart";

void Complain(const absl::Status& status) {
  absl::FPrintF(stderr, "lockstep compare: %s\n", absl::StrCat(status.message()));
}

absl::StatusOr<LoadedSpec> Load(const CompareArguments& arguments) {
  if (!arguments.spec.has_value()) {
    absl::FPrintF(stderr, "lockstep: no spec given: %s\n", kQuickstart);
  }
  ASSIGN_OR_RETURN(const SpecText text, FindSpec(arguments.spec.value_or(kQuickstart)));
  LoadedSpec loaded = LoadSpec(text, arguments.options);
  RETURN_IF_ERROR(loaded.status());
  for (const SpecError& note : loaded.notes) {
    absl::FPrintF(stderr, "lockstep: note: %s\n", note.ToString());
  }
  return loaded;
}

std::string UtcNow() {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::Now(), absl::UTCTimeZone());
}

// Where the comparison happens.
struct Place {
  std::string dir;
  Endpoint listen;
};

// Runs everything that is planned, in order, until one run does not end well.
class Comparison {
 public:
  Comparison(const CompareArguments& arguments, const Experiment& experiment, const Place& place,
             const Clock& clock, const Abort& abort)
      : experiment_(experiment),
        plan_(PlanRuns(experiment)),
        clock_(clock),
        abort_(abort),
        program_dir_(arguments.program_dir),
        nccl_library_(arguments.nccl_library),
        cublas_library_(arguments.cublas_library),
        listen_(place.listen),
        results_(place.dir, experiment),
        progress_(stderr, arguments.plain, Kinds(), clock) {}

  absl::Status Execute(HostWatch* host) {
    for (const RunConfig& config : plan_) {
      host->Sample();
      RETURN_IF_ERROR(ExecuteOne(config));
    }
    return absl::OkStatus();
  }

  Results& results() { return results_; }
  // Of the run that was started last.
  const std::string& last_logs() const { return last_logs_; }

 private:
  std::vector<std::string> Kinds() const {
    std::vector<std::string> kinds;
    kinds.reserve(plan_.size());
    for (const RunConfig& config : plan_) kinds.push_back(results_.IdOf(config));
    return kinds;
  }

  absl::Status ExecuteOne(const RunConfig& config) {
    const RunOptions options{.program_dir = program_dir_,
                             .listen = listen_,
                             .run_dir = results_.RunDir(config),
                             .nccl_library = nccl_library_,
                             .cublas_library = cublas_library_};
    last_logs_ = absl::StrCat(options.run_dir, "/logs");
    progress_.BeginRun(config.block() + 1, experiment_.blocks(), experiment_.train().steps());
    const RunOutcome outcome = ExecuteRun(
        config, options, clock_, abort_,
        [&](const RunProgress& progress) { progress_.Update(progress.running, progress.step); },
        [&](const std::string& line) { progress_.Say(line); });
    progress_.EndRun();
    return results_.Add(config, outcome);
  }

  const Experiment& experiment_;
  const std::vector<RunConfig> plan_;
  const Clock& clock_;
  const Abort& abort_;
  const std::string program_dir_;
  const std::string nccl_library_;
  const std::string cublas_library_;
  const Endpoint listen_;
  Results results_;
  Progress progress_;
  std::string last_logs_;
};

int ExitCodeOf(const absl::Status& outcome, int signal, const RunFile& run) {
  constexpr int kSignalBase = 128;
  if (signal != 0) return kSignalBase + signal;
  if (!outcome.ok()) return ExitCodeFor(outcome);
  return PromiseBroken(run.verdict()) ? kExitPromiseBroken : kExitOk;
}

absl::StatusOr<int> SayWhatWouldHappen(const CompareArguments& arguments, const LoadedSpec& loaded,
                                       const Endpoint& listen) {
  RETURN_IF_ERROR(CheckOutDir(arguments.out));
  ASSIGN_OR_RETURN(const std::string plan,
                   DescribePlan(loaded.experiment,
                                {.out = arguments.out, .listen = listen, .cores = UsableCores()}));
  absl::PrintF("%s", plan);
  return kExitOk;
}

// GPUs and libraries of others that workers need, before anything starts. All are on this host.
absl::Status CheckDevices(const Experiment& experiment, const CompareArguments& arguments,
                          int workers) {
  if (experiment.device() == CPU) return absl::OkStatus();
  return CheckGpus({.library_dir = arguments.program_dir, .cublas = arguments.cublas_library},
                   workers, experiment.share_gpu());
}

absl::Status CheckEngines(const Experiment& experiment, const CompareArguments& arguments,
                          int ranks) {
  NcclPlace here;
  here.library = arguments.nccl_library;
  for (const Variant& variant : experiment.variant()) {
    const AllReduceSync& sync = variant.all_reduce();
    if (sync.engine() == AllReduceSync::HOST) continue;
    RETURN_IF_ERROR(
        Annotate(CheckEngine(EngineFrom(sync.engine()), arguments.program_dir,
                             NcclPlaceFrom(sync.nccl(), here), ranks, CudaPlaceFrom(sync)),
                 absl::StrCat("variant \"", variant.name(), "\"")));
  }
  return absl::OkStatus();
}

absl::StatusOr<int> Run(const CompareArguments& arguments, const LoadedSpec& loaded) {
  Abort abort;
  const SignalWatch signals(&abort);
  ASSIGN_OR_RETURN(const Endpoint listen, ParseListen(arguments.listen));
  RETURN_IF_ERROR(CheckListen(listen));
  const auto& workers = loaded.experiment.workers();
  const int most = workers.empty() ? 1 : *std::max_element(workers.begin(), workers.end());
  RETURN_IF_ERROR(CheckDevices(loaded.experiment, arguments, most));
  RETURN_IF_ERROR(CheckEngines(loaded.experiment, arguments, most));
  if (arguments.dry_run) return SayWhatWouldHappen(arguments, loaded, listen);
  const MonotonicClock clock;
  const int64_t start_ns = clock.NowNs();
  const std::string started_at = UtcNow();
  const ExperimentSize size = EstimateSize(loaded.experiment);
  ASSIGN_OR_RETURN(const std::string dir,
                   MakeOutDir(arguments.out, loaded.experiment.name(), started_at));
  if (size.processes_max > UsableCores()) {
    absl::FPrintF(
        stderr,
        "lockstep: up to %d processes on %d cores: times will show the processor, not the links\n",
        size.processes_max, UsableCores());
  }
  HostWatch host;
  Comparison comparison(arguments, loaded.experiment, {.dir = dir, .listen = listen}, clock, abort);
  const absl::Status outcome = comparison.Execute(&host);
  RunContext context{.command = arguments.command, .started_at = started_at, .outcome = outcome};
  context.duration_s =
      static_cast<double>(clock.NowNs() - start_ns) / static_cast<double>(kNsPerSecond);
  context.host = host.Describe(size.processes_max);
  ASSIGN_OR_RETURN(const RunFile run, comparison.results().Write(context));
  if (arguments.json) {
    ASSIGN_OR_RETURN(const std::string json, RunToJson(run));
    absl::PrintF("%s\n", json);
  } else {
    absl::PrintF("%s", RenderTerminal(run, {.report_path = absl::StrCat(dir, "/report.html"),
                                            .spec = arguments.spec.value_or(""),
                                            .set = arguments.options.set,
                                            .logs_path = comparison.last_logs()}));
  }
  if (std::fflush(stdout) != 0) {
    return ErrnoStatus(errno, absl::StrCat("cannot print the result; it is in ", dir));
  }
  return ExitCodeOf(outcome, signals.received(), run);
}

}  // namespace

int Compare(const CompareArguments& arguments) {
  const absl::StatusOr<LoadedSpec> loaded = Load(arguments);
  if (!loaded.ok()) {
    Complain(loaded.status());
    return ExitCodeFor(loaded.status());
  }
  const absl::StatusOr<int> code = Run(arguments, *loaded);
  if (!code.ok()) {
    Complain(code.status());
    return ExitCodeFor(code.status());
  }
  return *code;
}

}  // namespace lockstep
