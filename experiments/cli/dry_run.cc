#include "experiments/cli/dry_run.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "experiments/analyse/balance.h"
#include "experiments/analyse/bytes.h"
#include "experiments/analyse/run_record.h"
#include "experiments/spec/plan.h"
#include "experiments/spec/size.h"

namespace lockstep {
namespace {

// How fast a host may be. Wide on purpose: small matrices, a busy machine.
struct Pace {
  double gflops_per_core;
  double gb_per_s;  // over loopback, all links together
  double start_s;   // of a run: processes, links, stop
};
constexpr Pace kFast = {.gflops_per_core = 50, .gb_per_s = 4, .start_s = 0.3};
constexpr Pace kSlow = {.gflops_per_core = 5, .gb_per_s = 0.2, .start_s = 2};
constexpr double kGiga = 1e9;

struct Row {
  VariantSize size;
  std::string id;
  ByteFormula formula;
  BalanceResult balance = {};  // parameter servers
};

std::string Grouped(double number) {
  std::string text = absl::StrFormat("%.0f", number);
  for (size_t i = text.size(); i > 3; i -= 3) text.insert(i - 3, 1, ',');
  return text;
}

std::string Counted(int64_t count, const std::string& noun) {
  return absl::StrCat(Grouped(static_cast<double>(count)), " ", noun, count == 1 ? "" : "s");
}

absl::StatusOr<std::vector<Row>> RowsOf(const Experiment& experiment, const ExperimentSize& size) {
  std::vector<Row> rows;
  auto next = size.variants.begin();
  for (const Variant& variant : experiment.variant()) {
    for (const int workers : experiment.workers()) {
      Row row{.size = *next++, .id = RunId(experiment, variant, workers), .formula = {}};
      RunConfig config;
      *config.mutable_experiment() = experiment;
      *config.mutable_variant() = variant;
      config.set_world_size(workers);
      config.set_servers(row.size.servers);
      ASSIGN_OR_RETURN(row.formula, FormulaFor(FormulaInputOf(
                                        config, static_cast<double>(size.gradient_bytes))));
      if (variant.has_ps()) {
        ASSIGN_OR_RETURN(row.balance, BalanceOf(BalanceInputOf(config)));
      }
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

std::string BytesText(const ByteFormula& formula) {
  std::string text = Grouped(formula.worker);
  if (formula.worker > 0) absl::StrAppend(&text, " = ", formula.worker_text);
  if (formula.server) {
    absl::StrAppend(&text, "; each server ", Grouped(*formula.server), " = ", formula.server_text);
  }
  const std::string& busiest = formula.busiest_text;
  if (formula.server && busiest != formula.worker_text && busiest != formula.server_text) {
    absl::StrAppend(&text, "; busiest link ", Grouped(formula.busiest), " = ", busiest);
  }
  return text;
}

std::string Table(const std::vector<Row>& rows) {
  size_t width = 7;  // of "variant"
  for (const Row& row : rows) width = std::max(width, row.id.size());
  const int columns = static_cast<int>(width);
  std::string text = absl::StrFormat(
      "%-*s workers servers processes ports  a worker sends a step\n", columns, "variant");
  for (const Row& row : rows) {
    absl::StrAppendFormat(&text, "%-*s %7d %7d %9d %5d  %s\n", columns, row.id, row.size.workers,
                          row.size.servers, row.size.processes, row.size.ports,
                          BytesText(row.formula));
  }
  return text;
}

// Servers that are given more than they should be: before anything is started.
std::string Warnings(const std::vector<Row>& rows) {
  std::string text;
  for (const Row& row : rows) {
    if (row.balance.max_over_mean() <= kBalancedMax) continue;
    absl::StrAppend(&text, "Warning: ", row.id, ", placed ", BalanceText(row.balance),
                    "; placement SPLIT would spread them evenly.\n");
  }
  return text.empty() ? "" : absl::StrCat("\n", text);
}

// Of all runs, at this pace.
double Seconds(const Experiment& experiment, const std::vector<Row>& rows, const Pace& pace,
               int cores) {
  // Forward, and backward to weights and to inputs: a multiplication and an addition each.
  constexpr double kFlopPerParameterAndSample = 6;
  const double flop = kFlopPerParameterAndSample *
                      static_cast<double>(ParameterCount(experiment.model().mlp())) *
                      experiment.train().global_batch(0);
  const double runs_of_each = experiment.blocks() * experiment.train().seeds_size();
  double seconds = 0;
  for (const Row& row : rows) {
    const double compute_s =
        flop / (std::min(cores, row.size.workers) * pace.gflops_per_core * kGiga);
    const double sent =
        row.size.workers * row.formula.worker + row.size.servers * row.formula.server.value_or(0);
    const double step_s = compute_s + sent / (pace.gb_per_s * kGiga);
    seconds += runs_of_each * (pace.start_s + experiment.train().steps() * step_s);
  }
  return seconds;
}

std::string TimeText(double seconds) {
  constexpr double kMinute = 60;
  constexpr double kHour = 3'600;
  if (seconds < 2 * kMinute) return absl::StrCat(std::ceil(seconds), " s");
  if (seconds < 2 * kHour) return absl::StrCat(std::ceil(seconds / kMinute), " min");
  return absl::StrCat(std::ceil(seconds / kHour), " h");
}

}  // namespace

absl::StatusOr<std::string> DescribePlan(const Experiment& experiment, const DryRun& dry_run) {
  const ExperimentSize size = EstimateSize(experiment);
  ASSIGN_OR_RETURN(const std::vector<Row> rows, RowsOf(experiment, size));
  const std::string dtype = absl::AsciiStrToLower(DtypeSpec_Name(experiment.wire_dtype(0)));
  std::string text = absl::StrCat(
      experiment.name(), ": ", Counted(experiment.variant_size(), "variant"), ", ",
      Counted(experiment.blocks(), "block"), ", ", Counted(size.runs, "run"), " of ",
      Counted(experiment.train().steps(), "step"), ", one after the other\n\n", Table(rows),
      Warnings(rows), "\nS = ", Grouped(static_cast<double>(size.gradient_bytes)), " bytes, ",
      Counted(size.parameters, "parameter"), " in ", dtype,
      ". Bytes are the formula's; headers add to them.\nProcesses: at most ", size.processes_max,
      " at once, on ", Counted(dry_run.cores, "core"), ". Ports: at most ", size.ports_max,
      " at once, the coordinator's on ", dry_run.listen.ToString(),
      dry_run.listen.port == 0 ? " (the system chooses)" : "", ".\n");
  absl::StrAppend(
      &text, "Time: ", TimeText(Seconds(experiment, rows, kFast, dry_run.cores)), " to ",
      TimeText(Seconds(experiment, rows, kSlow, dry_run.cores)),
      ". Not measured: this is what the formulas give where a core computes 5 to 50\n"
      "GFLOP/s, loopback carries 0.2 to 4 GB/s and a run needs 0.3 to 2 s to start and stop.\n"
      "Results would go to ",
      dry_run.out.empty() ? absl::StrCat("runs/<UTC time>-", experiment.name()) : dry_run.out,
      ". Nothing was started, nothing was written.\n");
  return text;
}

}  // namespace lockstep
