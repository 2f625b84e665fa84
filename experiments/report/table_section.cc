#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "experiments/report/html.h"
#include "experiments/report/number.h"
#include "experiments/report/sections.h"

namespace lockstep {
namespace {

std::string ThroughputCell(const VariantResult& result) {
  const Interval& speed = result.samples_per_s();
  if (speed.n() < 1) return kNotMeasured;
  const std::string range = RangeText(speed);
  return absl::StrCat(FormatValue(speed.median()), range.empty() ? "" : " ",
                      range.empty() ? "" : Quiet(range));
}

std::string BarCell(const VariantResult& result, double largest) {
  if (result.samples_per_s().n() < 1 || largest <= 0) return "";
  const double percent = 100 * std::max(0.0, result.samples_per_s().median()) / largest;
  return absl::StrFormat("<span class=\"bar\" style=\"width:%.1f%%\"></span>", percent);
}

std::string BytesCell(const VariantResult& result) {
  return result.has_bytes() ? FormatBytes(result.bytes().tx_per_worker_step()) : kNotMeasured;
}

// The mean is what the picture of a step's parts adds up to.
std::string StepCell(const VariantResult& result) {
  const Quantiles& step = result.step_us();
  const double mean = result.anatomy_us().compute() + result.anatomy_us().sync();
  if (step.p50() <= 0) return kNotMeasured;
  return absl::StrCat(mean > 0 ? FormatMilliseconds(mean) : kNotMeasured, " ",
                      Quiet(absl::StrCat("span p50 ", FormatMilliseconds(step.p50()), ", p95 ",
                                         FormatMilliseconds(step.p95()))));
}

std::string BusiestCell(const Busiest& busiest) {
  if (busiest.node().empty()) return kNotMeasured;
  return absl::StrCat(Escape(absl::StrCat(busiest.node(), " ", busiest.direction())), " ",
                      Quiet(FormatBytes(busiest.bytes_per_step())));
}

// The state in words beside its sign, and how far apart where that is known.
std::string ReplicasCell(const ReplicaResult& replicas) {
  if (replicas.state() == "identical") return "<span class=\"ok\">✓ bit-identical</span>";
  if (replicas.state() != "diverged") return "not compared";
  std::string apart = "differ";
  if (replicas.max_rel().has_number_value()) {
    apart = absl::StrCat(FormatShare(replicas.max_rel().number_value()), " apart");
  }
  return absl::StrCat("<span class=\"bad\">✗ ", apart, "</span>");
}

double LargestMedian(const PageView& view) {
  double largest = 0;
  for (const PageRow& row : view.rows) {
    largest = std::max(largest, row.result->samples_per_s().median());
  }
  return largest;
}

std::string Subtitle(const RunFile& run) {
  const ExperimentInfo& experiment = run.experiment();
  std::string out;
  if (run.runs_size() > 1) {
    out =
        "Same model, same start, same data order, same optimizer: only the synchronisation "
        "differs. ";
  }
  std::set<int> workers;
  for (const VariantResult& result : run.runs()) workers.insert(result.workers());
  absl::StrAppend(&out, absl::StrJoin(workers, ", "),
                  *workers.rbegin() == 1 ? " worker" : " workers");
  if (experiment.blocks() > 0) {
    absl::StrAppend(&out, ", ", experiment.blocks() == 1 ? "one block" : "median of ",
                    experiment.blocks() == 1 ? "" : Plural(experiment.blocks(), "block"));
  }
  absl::StrAppend(&out, ", ", TimeBaseText(run), ".");
  return out;
}

// Why a final loss is missing: a training that blew up is a result.
std::string LossNotes(const PageView& view) {
  std::string out;
  for (const PageRow& row : view.rows) {
    const std::string& reason = row.result->loss().final_reason();
    if (!reason.empty()) {
      absl::StrAppend(&out, Note(absl::StrCat(row.label, ": no final loss, ", reason, ".")));
    }
  }
  return out;
}

bool Any(const PageView& view, const std::function<bool(const VariantResult&)>& holds) {
  return std::any_of(view.rows.begin(), view.rows.end(),
                     [&](const PageRow& row) { return holds(*row.result); });
}

// Why these speeds may not be compared, where that is so.
std::string HostNote(const RunFile& run) {
  const HostInfo& host = run.host();
  if (!host.cpu_bound()) return "";
  return Note(absl::StrCat(
      "The processors of this host were the limit (", Plural(host.cores(), "core"),
      host.cpu_busy() > 0 ? absl::StrCat(", ", FormatShare(host.cpu_busy()), " busy") : "",
      "): these speeds show the host more than the way to synchronise, and are not ranked."));
}

}  // namespace

std::string TableHtml(const PageView& view) {
  std::string out =
      SectionOpen("table", view.rows.size() > 1 ? "How they compare" : "What was measured",
                  view.rows.empty() ? "No variant was measured." : Subtitle(*view.run));
  if (view.rows.empty()) return absl::StrCat(out, "</section>\n");
  const std::vector<Column> columns = {{"Synchronisation"},
                                       {"Samples/s", "num"},
                                       {"relative", "bars"},
                                       {"Mean step, ms", "num wrap"},
                                       {"Sent per worker, step", "num"},
                                       {"Busiest endpoint", "num wrap"},
                                       {"Final loss", "num"},
                                       {"Replicas", "num"}};
  absl::StrAppend(&out, TableOpen("variants", "table-title", columns));
  const double largest = LargestMedian(view);
  for (const PageRow& row : view.rows) {
    const VariantResult& result = *row.result;
    const LossResult& loss = result.loss();
    absl::StrAppend(&out, Row(row, columns,
                              {ThroughputCell(result), BarCell(result, largest), StepCell(result),
                               BytesCell(result), BusiestCell(result.busiest()),
                               loss.has_final() ? FormatValue(loss.final()) : kNotMeasured,
                               ReplicasCell(result.replicas())}));
  }
  absl::StrAppend(&out, TableClose(), LossNotes(view), HostNote(*view.run));
  if (Any(view, [](const VariantResult& result) { return result.step_us().p50() > 0; })) {
    absl::StrAppend(&out, Note("Mean step: of a worker. Span: from the first worker’s start of a "
                               "step to the last one’s end."));
  }
  if (Any(view, [](const VariantResult& result) { return !result.rate().empty(); })) {
    absl::StrAppend(&out, Note("Without waiting, n updates of one worker each replace one mean, so "
                               "the learning rate r is divided by n; rate r shows what happens "
                               "where it is not."));
  }
  if (Any(view, [](const VariantResult& result) { return !result.ranked(); })) {
    absl::StrAppend(&out, Note("A control trains its workers without any exchange. It shows what "
                               "synchronisation costs and prevents, and is never ranked."));
  }
  return absl::StrCat(out, "</section>\n");
}

}  // namespace lockstep
