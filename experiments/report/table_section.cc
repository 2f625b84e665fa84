#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "experiments/report/html.h"
#include "experiments/report/number.h"
#include "experiments/report/sections.h"

namespace lockstep {
namespace {

bool Measured(const Interval& interval) { return interval.n() > 0; }

// "1,171–1,199"; empty where one block can't give an interval.
std::string RangeText(const Interval& interval) {
  if (interval.n() < 2) return "";
  return absl::StrCat(FormatValue(interval.low()), "–", FormatValue(interval.high()));
}

std::string ThroughputCell(const VariantResult& result) {
  const Interval& speed = result.samples_per_s();
  if (!Measured(speed)) return kNotMeasured;
  const std::string range = RangeText(speed);
  return absl::StrCat(FormatValue(speed.median()), range.empty() ? "" : " ",
                      range.empty() ? "" : Quiet(range));
}

std::string BarCell(const VariantResult& result, double largest) {
  if (!Measured(result.samples_per_s()) || largest <= 0) return "";
  const double percent = 100 * std::max(0.0, result.samples_per_s().median()) / largest;
  return absl::StrFormat("<span class=\"bar\" style=\"width:%.1f%%\"></span>", percent);
}

std::string BytesCell(const VariantResult& result) {
  return result.has_bytes() ? FormatBytes(result.bytes().tx_per_worker_step()) : kNotMeasured;
}

std::string StepCell(const Quantiles& step) {
  if (step.p50() <= 0) return kNotMeasured;
  return absl::StrCat(FormatMilliseconds(step.p50()), " ", Quiet(FormatMilliseconds(step.p95())));
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
  absl::StrAppend(&out, Plural(experiment.workers(), "worker"));
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
    if (reason.empty()) continue;
    absl::StrAppend(&out, "<p class=\"note\">", Escape(row.result->label()), ": no final loss, ",
                    Escape(reason), ".</p>\n");
  }
  return out;
}

bool HasControl(const PageView& view) {
  return std::any_of(view.rows.begin(), view.rows.end(),
                     [](const PageRow& row) { return !row.result->ranked(); });
}

// Why these speeds may not be compared, where that is so.
std::string HostNote(const RunFile& run) {
  const HostInfo& host = run.host();
  if (!host.cpu_bound()) return "";
  return absl::StrCat(
      "<p class=\"note\">The processors of this host were the limit (",
      Plural(host.cores(), "core"),
      host.cpu_busy() > 0 ? absl::StrCat(", ", FormatShare(host.cpu_busy()), " busy") : "",
      "): these speeds show the host more than the way to synchronise, and are not "
      "ranked.</p>\n");
}

std::string BlockValues(const VariantResult& result) {
  std::string out;
  for (const double value : result.samples_per_s_by_block()) {
    absl::StrAppend(&out, out.empty() ? "" : " · ", "<span>", FormatValue(value), "</span>");
  }
  return out.empty() ? kNotMeasured : out;
}

}  // namespace

std::string TableHtml(const PageView& view) {
  std::string out =
      absl::StrCat("<section aria-labelledby=\"table-title\">\n<h2 id=\"table-title\">",
                   view.rows.size() > 1 ? "How they compare" : "What was measured", "</h2>\n");
  if (view.rows.empty()) {
    return absl::StrCat(out, "<p class=\"sub\">No variant was measured.</p>\n</section>\n");
  }
  absl::StrAppend(&out, "<p class=\"sub\">", Escape(Subtitle(*view.run)), "</p>\n");
  const std::vector<Column> columns = {{"Synchronisation"},
                                       {"Samples/s", "num"},
                                       {"relative", "bars"},
                                       {"Step ms, p50 p95", "num"},
                                       {"Sent per worker, step", "num"},
                                       {"Busiest endpoint", "num wrap"},
                                       {"Final loss", "num"},
                                       {"Replicas", "num"}};
  absl::StrAppend(&out, TableOpen("variants", "table-title", columns));
  const double largest = LargestMedian(view);
  for (const PageRow& row : view.rows) {
    const VariantResult& result = *row.result;
    absl::StrAppend(
        &out, RowOpen(row), Cell(columns[1], ThroughputCell(result)),
        Cell(columns[2], BarCell(result, largest)), Cell(columns[3], StepCell(result.step_us())),
        Cell(columns[4], BytesCell(result)), Cell(columns[5], BusiestCell(result.busiest())));
    absl::StrAppend(&out,
                    Cell(columns[6], result.loss().has_final() ? FormatValue(result.loss().final())
                                                               : kNotMeasured),
                    Cell(columns[7], ReplicasCell(result.replicas())), RowClose());
  }
  absl::StrAppend(&out, TableClose(), LossNotes(view), HostNote(*view.run));
  if (HasControl(view)) {
    absl::StrAppend(
        &out,
        "<p class=\"note\">A control trains its workers without any exchange. It shows what "
        "synchronisation costs and prevents, and is never ranked.</p>\n");
  }
  absl::StrAppend(&out, "</section>\n");
  return out;
}

std::string ChartHtml(const PageView& view) {
  if (LargestMedian(view) <= 0) return "";
  std::string out = absl::StrCat(
      "<section aria-labelledby=\"throughput-title\">\n<h2 "
      "id=\"throughput-title\">Throughput</h2>\n"
      "<p class=\"sub\">Samples per second of all workers together, ",
      Escape(TimeBaseText(*view.run)),
      view.run->host().cpu_bound() ? "; the processors of this host were the limit" : "",
      ". Mark: median. Brackets: its interval. Ticks below: one per block.</p>\n"
      "<figure id=\"throughput\"></figure>\n"
      "<noscript><p class=\"note\">The picture needs JavaScript; its numbers are "
      "below.</p></noscript>\n"
      "<details><summary>The numbers of this picture</summary>\n");
  const std::vector<Column> columns = {{"Synchronisation"},
                                       {"Median, samples/s", "num"},
                                       {"Interval", "num"},
                                       {"Each block", "num wrap"}};
  absl::StrAppend(&out, TableOpen("throughput-numbers", "throughput-title", columns));
  for (const PageRow& row : view.rows) {
    const Interval& speed = row.result->samples_per_s();
    const std::string range = RangeText(speed);
    absl::StrAppend(&out, RowOpen(row),
                    Cell(columns[1], Measured(speed) ? FormatValue(speed.median()) : kNotMeasured),
                    Cell(columns[2], range.empty() ? kNotMeasured : range),
                    Cell(columns[3], BlockValues(*row.result)), RowClose());
  }
  absl::StrAppend(&out, TableClose(), "</details>\n</section>\n");
  return out;
}

}  // namespace lockstep
