#include "experiments/analyse/steps_csv.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "experiments/analyse/anatomy.h"
#include "experiments/analyse/atomic_file.h"
#include "experiments/analyse/csv.h"

namespace lockstep {
namespace {

constexpr char kHeader[] =
    "experiment,variant,mode,algorithm,rate,channels,workers,servers,global_batch_samples,"
    "reduction_order,overlap,block,seed,rank,step,state,warmup,start_us,compute_us,sync_us,wait_us,"
    "hidden_us,step_us,samples,loss,sent_bytes,received_bytes,sent_messages,received_messages,"
    "parameters_hash\r\n";

std::string Microseconds(double ns) { return CsvNumber(ns / 1e3); }

std::string HashAt(const MemberRecord& worker, int64_t step) {
  for (const Probed& probed : worker.probes) {
    if (probed.step() == step) return probed.parameters_hash();
  }
  return "";
}

std::string Settings(const RunFile& file, const RunConfig& config) {
  const Variant& variant = config.variant();
  const Experiment& experiment = config.experiment();
  return absl::StrJoin(
      {CsvText(file.experiment().name()), CsvText(variant.name()), ModeOf(variant),
       AlgorithmOf(variant), RateOf(variant),
       variant.has_all_reduce() ? absl::StrCat(variant.all_reduce().channels()) : std::string(),
       absl::StrCat(config.world_size()), absl::StrCat(config.servers()),
       absl::StrCat(file.experiment().global_batch()),
       absl::AsciiStrToLower(ReductionOrder_Name(experiment.reduction_order())),
       absl::StrCat(experiment.overlap() ? 1 : 0), absl::StrCat(config.block()),
       absl::StrCat(config.seed())},
      ",");
}

void AppendRun(const RunFile& file, const RunRecord& run, std::string* csv) {
  const std::string settings = Settings(file, run.config);
  // A run that was cut short is never called complete, whatever the file says.
  const std::string unfinished = file.state() == "complete" ? "failed" : file.state();
  const std::string state = run.complete ? "complete" : CsvText(unfinished);
  const int64_t run_start_ns = FirstStartNs(run);
  for (size_t rank = 0; rank < run.workers.size(); ++rank) {
    const MemberRecord& worker = run.workers[rank];
    for (const StepDone& step : worker.steps) {
      const TrafficCount& traffic = step.traffic();
      absl::StrAppend(csv, settings, ",", rank, ",", step.step(), ",", state, ",",
                      step.step() <= WarmupSteps(run.steps()) ? 1 : 0, ",");
      const auto index = static_cast<size_t>(step.step() - 1);
      const StepParts parts = PartsOf(step, LastGradientOf(run, index, rank).end_ns);
      absl::StrAppend(csv, Microseconds(static_cast<double>(step.start_ns() - run_start_ns)), ",",
                      Microseconds(parts.compute), ",", Microseconds(parts.sync), ",");
      absl::StrAppend(csv, Microseconds(parts.wait), ",", Microseconds(parts.hidden), ",",
                      Microseconds(parts.compute + parts.sync), ",");
      absl::StrAppend(csv, step.samples(), ",", CsvNumber(step.loss()), ",", traffic.sent_bytes(),
                      ",", traffic.received_bytes(), ",");
      absl::StrAppend(csv, traffic.sent_messages(), ",", traffic.received_messages(), ",",
                      CsvText(HashAt(worker, step.step())), "\r\n");
    }
  }
}

}  // namespace

std::string StepsToCsv(const RunFile& file, const std::vector<RunRecord>& runs) {
  std::string csv = kHeader;
  for (const RunRecord& run : runs) AppendRun(file, run, &csv);
  return csv;
}

absl::Status WriteStepsCsv(const std::string& path, const RunFile& file,
                           const std::vector<RunRecord>& runs) {
  return WriteFileAtomically(path, StepsToCsv(file, runs));
}

}  // namespace lockstep
