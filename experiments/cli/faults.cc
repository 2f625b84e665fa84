#include "experiments/cli/faults.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/exit_code.h"
#include "base/member/member.h"
#include "base/member/signals.h"
#include "base/status.h"
#include "experiments/analyse/proto_json.h"
#include "experiments/cli/failure_table.h"
#include "experiments/cli/host.h"
#include "experiments/cli/out_dir.h"

namespace lockstep {
namespace {

constexpr char kHelp[] =
    "Strikes a server, a worker and the coordinator of every variant of a spec, with SIGKILL and "
    "with SIGSTOP,\none run each, and prints what came of it: outcome, who was named, how soon, "
    "throughput before and after.\n";
constexpr char kExamples[] =
    "Examples:\n"
    "  ./lockstep faults\n"
    "  ./lockstep faults --only ring --only ring_replace --set workers=3\n"
    "  ./lockstep faults my.textproto --json\n"
    "Exit codes: 0 the table is complete, 1 a run hung or named somebody else, 2 bad usage or "
    "spec,\n4 the environment lacks something, 5 internal error, 130/143 interrupted.\n";

absl::StatusOr<Experiment> Load(const std::string& name, SpecOptions options) {
  ASSIGN_OR_RETURN(const SpecText text, FindSpec(name));
  options.blocks = "1";
  LoadedSpec loaded = LoadSpec(text, options);
  RETURN_IF_ERROR(loaded.status());
  if (loaded.experiment.fault_size() > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(loaded.display_name,
                     ": fault[0]: this command strikes by itself; leave the spec's own "
                     "faults out, or use `lockstep compare`"));
  }
  return loaded.experiment;
}

// In the first third, so that there is a before and an after.
absl::StatusOr<int64_t> StrikeStep(const std::optional<int64_t>& given, int64_t steps) {
  constexpr int64_t kOneOf = 3;
  const int64_t step = given.value_or(std::max<int64_t>(1, steps / kOneOf));
  if (step >= 1 && step < steps) return step;
  return absl::InvalidArgumentError(
      absl::StrCat("--step ", step, " is none of 1..", steps - 1, ", before the last step"));
}

std::string LineOf(const FailureRow& row) {
  return absl::StrCat(
      row.variant(), ": ", row.kind(), " of ", row.target(), ": ", row.outcome(), ", exit code ",
      row.exit_code(), ", ", row.named().empty() ? "nobody" : row.named(), " named",
      row.has_detected_ms() ? absl::StrFormat(" after %.0f ms", row.detected_ms()) : "");
}

struct Place {
  std::string program_dir;
  std::string dir;
};

absl::StatusOr<FailureFile> StrikeAll(const Experiment& experiment, int64_t step,
                                      const Place& place, const Abort& abort) {
  const MonotonicClock clock;
  HostWatch host;
  const int64_t start_ns = clock.NowNs();
  FailureFile file;
  file.set_experiment(experiment.name());
  file.set_steps(experiment.train().steps());
  for (const FailureCase& failure : FailureCases(experiment, step)) {
    const std::string dir = absl::StrCat(place.dir, "/", file.rows_size() + 1, "-", failure.id, "-",
                                         failure.role, "-", Fault::Kind_Name(failure.kind));
    std::error_code error;
    std::filesystem::create_directories(dir, error);
    if (error) return ErrnoStatus(error.value(), absl::StrCat("cannot create ", dir));
    host.Sample();
    ASSIGN_OR_RETURN(const StruckRun run, RunAndStrike(failure, {.program_dir = place.program_dir,
                                                                 .dir = dir,
                                                                 .clock = &clock,
                                                                 .abort = &abort}));
    *file.add_rows() = JudgeFailure(failure, run);
    absl::FPrintF(stderr, "lockstep: faults: %s\n", LineOf(*file.rows().rbegin()));
  }
  *file.mutable_host() = host.Describe(EstimateSize(experiment).processes_max);
  file.set_duration_s(static_cast<double>(clock.NowNs() - start_ns) / kNsPerSecond);
  return file;
}

int Fail(const absl::Status& status, int signal) {
  constexpr int kSignalBase = 128;
  absl::FPrintF(stderr, "lockstep faults: %s\n", absl::StrCat(status.message()));
  return signal == 0 ? ExitCodeFor(status) : kSignalBase + signal;
}

}  // namespace

FaultsCommand::FaultsCommand(CLI::App* app) : command_(app->add_subcommand("faults", kHelp)) {
  command_->footer(kExamples);
  command_->add_option("SPEC", spec_, "name of a ready-made spec, or a file")
      ->capture_default_str();
  command_->add_option("--set", options_.set, "path=value in text format, as for compare")
      ->allow_extra_args(false);
  command_->add_option("--only", options_.only, "strike this variant alone (may be repeated)")
      ->allow_extra_args(false);
  command_->add_option("--step", step_,
                       "strike once every worker has finished it (default: a "
                       "third of the steps)");
  command_->add_option("--out", out_, "folder for the runs (default runs/<time>-<name>)");
  command_->add_flag("--json", json_, "print JSON (lockstep.failures/1) instead of the table");
}

int FaultsCommand::Run(const std::string& command_line, const std::string& program_dir) const {
  const absl::StatusOr<Experiment> experiment = Load(spec_, options_);
  if (!experiment.ok()) return Fail(experiment.status(), 0);
  const absl::StatusOr<int64_t> step = StrikeStep(step_, experiment->train().steps());
  if (!step.ok()) return Fail(step.status(), 0);
  Abort abort;
  const SignalWatch signals(&abort);
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) return Fail(ErrnoStatus(errno, "prctl"), 0);
  const std::string started_at =
      absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::Now(), absl::UTCTimeZone());
  const absl::StatusOr<std::string> dir = MakeOutDir(out_, experiment->name(), started_at);
  if (!dir.ok()) return Fail(dir.status(), 0);
  absl::StatusOr<FailureFile> file =
      StrikeAll(*experiment, *step, {.program_dir = program_dir, .dir = *dir}, abort);
  if (!file.ok()) return Fail(file.status(), signals.received());
  file->set_command(command_line);
  file->set_build(BuildId());
  file->set_started_at(started_at);
  const absl::StatusOr<std::string> text =
      json_ ? ToJson(*file, kFailureJson) : FailureTable(*file);
  if (!text.ok()) return Fail(text.status(), 0);
  absl::PrintF("%s", *text);
  if (std::fflush(stdout) != 0) return Fail(ErrnoStatus(errno, "cannot print the table"), 0);
  const bool broken = std::any_of(file->rows().begin(), file->rows().end(), BreaksPromise);
  return broken ? kExitPromiseBroken : kExitOk;
}

}  // namespace lockstep
