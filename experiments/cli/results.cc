#include "experiments/cli/results.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/member/member.h"
#include "base/member/record_writer.h"
#include "base/status.h"
#include "experiments/analyse/aggregate.h"
#include "experiments/analyse/atomic_file.h"
#include "experiments/analyse/devices.h"
#include "experiments/analyse/learning.h"
#include "experiments/analyse/run_json.h"
#include "experiments/analyse/server_load.h"
#include "experiments/analyse/steps_csv.h"
#include "experiments/analyse/trace.h"
#include "experiments/analyse/verdict.h"
#include "experiments/cli/describe.h"
#include "experiments/report/report.h"
#include "experiments/spec/spec.h"

namespace lockstep {
namespace {

// True when every probe shows the same hash everywhere: the distance is then 0 without any copy.
bool Identical(const RunRecord& run) {
  for (const MemberRecord& worker : run.workers) {
    const auto& first = run.workers.front().probes;
    const size_t common = std::min(first.size(), worker.probes.size());
    for (size_t i = 0; i < common; ++i) {
      if (worker.probes[i].parameters_hash() != first[i].parameters_hash()) return false;
    }
  }
  return true;
}

// The step a member was in, by its own record: more exact than its last sign of life.
int64_t StepInRecord(const RunRecord& record, const MemberId& member) {
  const auto& members = member.role == WORKER ? record.workers : record.servers;
  if (static_cast<size_t>(member.index) >= members.size()) return 0;
  const MemberRecord& own = members[static_cast<size_t>(member.index)];
  if (!own.applied.empty()) return own.applied.back().step() + 1;
  return own.steps.empty() ? 0 : own.steps.back().step() + 1;
}

}  // namespace

std::string Results::IdOf(const RunConfig& config) const {
  return RunId(experiment_, config.variant(), config.world_size());
}

std::string Results::RunDir(const RunConfig& config) const {
  return absl::StrCat(dir_, "/blocks/", config.block() + 1, "-", IdOf(config), "-seed-",
                      config.seed());
}

std::string Results::RecordFile(const RunConfig& config, const std::string& role, int index) const {
  return RecordPath(absl::StrCat(RunDir(config), "/records"), role, index);
}

// Those of replacements too.
absl::Status Results::RemoveSnapshots(const RunConfig& config) const {
  std::error_code error;
  const std::string records = absl::StrCat(RunDir(config), "/records");
  for (const auto& entry : std::filesystem::directory_iterator(records, error)) {
    if (entry.path().extension() != ".params") continue;
    std::filesystem::remove(entry.path(), error);
    if (error) {
      return ErrnoStatus(error.value(), absl::StrCat("cannot remove ", entry.path().string()));
    }
  }
  return absl::OkStatus();
}

absl::Status Results::Add(const RunConfig& config, const RunOutcome& ended) {
  RunRecord record = MergeRun(config, [&](const std::string& role, int index) {
    return ReadMember(absl::StrCat(RunDir(config), "/records"), role, index);
  });
  RunOutcome outcome = ended;
  if (outcome.status.ok() && !record.complete && !record.shrank) {
    outcome.status = absl::InternalError(
        absl::StrCat("the run ended well, but its records are not complete: ",
                     record.problems.empty() ? "no reason known" : record.problems.front()));
  }
  AddFailures(config, outcome, record);
  // Only the first run of a kind whose replicas differ is measured for distance.
  const bool measured = !Identical(record) && differed_.insert(IdOf(config)).second;
  if (!experiment_.probe().keep_snapshots() && !measured) {
    const absl::Status removed = RemoveSnapshots(config);
    if (!removed.ok()) record.problems.emplace_back(removed.message());
  }
  runs_.push_back(std::move(record));
  return outcome.status;
}

void Results::AddFailures(const RunConfig& config, const RunOutcome& outcome,
                          const RunRecord& record) {
  if (outcome.status.ok() || outcome.status.code() == absl::StatusCode::kCancelled) return;
  FailureInfo info;
  info.set_variant(IdOf(config));
  info.set_block(config.block() + 1);
  for (const Failure& failure : outcome.failures) {
    const int64_t step = std::max(failure.step, StepInRecord(record, failure.member));
    info.set_member(failure.member.ToString());
    info.set_step(static_cast<double>(step));
    info.set_message(absl::StrCat(failure.status.message()));
    info.set_consequence(failure.consequence);
    info.set_lost(failure.lost);
    failures_.push_back(info);
  }
  if (!outcome.failures.empty()) return;
  info.set_member("coordinator");
  info.set_message(absl::StrCat(outcome.status.message()));
  failures_.push_back(info);
}

absl::StatusOr<RunFile> Results::Write(const RunContext& context) {
  RunFile file = Describe(context);
  RETURN_IF_ERROR(AddVariants(&file));
  CompareLearning(runs_, &file);
  *file.mutable_verdict() = Decide(file);
  RETURN_IF_ERROR(
      WriteFileAtomically(absl::StrCat(dir_, "/experiment.textproto"), CanonicalText(experiment_)));
  RETURN_IF_ERROR(WriteRunJson(absl::StrCat(dir_, "/run.json"), file));
  RETURN_IF_ERROR(WriteStepsCsv(absl::StrCat(dir_, "/steps.csv"), file, runs_));
  RETURN_IF_ERROR(WriteServersCsv(absl::StrCat(dir_, "/servers.csv"), runs_));
  RETURN_IF_ERROR(WriteTrace(absl::StrCat(dir_, "/trace.json"), runs_));
  RETURN_IF_ERROR(WriteReport(absl::StrCat(dir_, "/report.html"), file));
  RETURN_IF_ERROR(DropSnapshots());
  return file;
}

absl::Status Results::DropSnapshots() const {
  if (experiment_.probe().keep_snapshots()) return absl::OkStatus();
  for (const RunRecord& run : runs_) RETURN_IF_ERROR(RemoveSnapshots(run.config));
  return absl::OkStatus();
}

absl::Status Results::AddVariants(RunFile* file) const {
  const SnapshotReader snapshots = [&](const RunRecord& run, int rank, const Probed& probed) {
    return ReadSnapshot(absl::StrCat(RecordFile(run.config, "worker", rank), ".params"), probed);
  };
  for (const Variant& variant : experiment_.variant()) {
    for (const int workers : experiment_.workers()) {
      const std::string id = RunId(experiment_, variant, workers);
      std::vector<RunRecord> own;
      std::copy_if(runs_.begin(), runs_.end(), std::back_inserter(own),
                   [&](const RunRecord& run) { return IdOf(run.config) == id; });
      if (own.empty()) continue;
      ASSIGN_OR_RETURN(*file->add_runs(), Aggregate(own, snapshots));
      file->mutable_runs()->rbegin()->set_id(id);
    }
  }
  return absl::OkStatus();
}

RunFile Results::Describe(const RunContext& context) const {
  RunFile file;
  file.set_schema(kRunSchema);
  file.set_state(context.outcome.ok()                                     ? "complete"
                 : context.outcome.code() == absl::StatusCode::kCancelled ? "aborted"
                                                                          : "failed");
  *file.mutable_tool() = DescribeTool();
  ExperimentInfo* info = file.mutable_experiment();
  info->set_id(std::filesystem::path(dir_).filename().string());
  info->set_name(experiment_.name());
  info->set_command(context.command);
  for (const uint64_t seed : experiment_.train().seeds()) {
    info->add_seeds(static_cast<double>(seed));
  }
  const auto complete =
      std::count_if(runs_.begin(), runs_.end(), [](const RunRecord& run) { return run.complete; });
  const int runs_per_block =
      experiment_.variant_size() * experiment_.workers_size() * experiment_.train().seeds_size();
  info->set_blocks(static_cast<int>(complete) / runs_per_block);
  info->set_steps(experiment_.train().steps());
  info->set_warmup_steps(WarmupSteps(experiment_.train().steps()));
  info->set_time_base("wall");
  info->set_global_batch(experiment_.train().global_batch(0));
  info->set_workers(*std::max_element(experiment_.workers().begin(), experiment_.workers().end()));
  info->set_reduce_op(experiment_.reduce_op() == MEAN ? "mean" : "sum");
  info->set_reduction_order(
      absl::AsciiStrToLower(ReductionOrder_Name(experiment_.reduction_order())));
  info->set_overlap(experiment_.overlap());
  info->set_bucket_cap_mb(experiment_.bucket_cap_mb(0));
  info->set_own_start(!experiment_.broadcast_start());
  info->set_device(DevicesText(runs_));
  info->set_started_at(context.started_at);
  info->set_duration_s(context.duration_s);
  *file.mutable_host() = context.host;
  for (const FailureInfo& failure : failures_) *file.add_failures() = failure;
  const ExperimentSize size = EstimateSize(experiment_);
  ModelInfo* model = file.mutable_model();
  model->set_description(DescribeModel(experiment_.model()));
  model->set_parameters(static_cast<double>(size.parameters));
  model->set_dtype(absl::AsciiStrToLower(DtypeSpec_Name(experiment_.wire_dtype(0))));
  model->set_gradient_bytes(static_cast<double>(size.gradient_bytes));
  model->set_optimizer(DescribeOptimizer(experiment_.train().optimizer()));
  model->set_data("UCI optical handwritten digits, 1,797 images of 8x8");
  return file;
}

}  // namespace lockstep
