// Where the time goes: throughput, the parts of a step, the model's prediction beside them.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "experiments/report/findings.h"
#include "experiments/report/html.h"
#include "experiments/report/number.h"
#include "experiments/report/sections.h"

namespace lockstep {
namespace {

std::string SpeedText(const Interval& speed) {
  const std::string range = RangeText(speed);
  return absl::StrCat(FormatValue(speed.median()), range.empty() ? "" : ", interval ", range);
}

// "Ring all-reduce 13,870, interval 13,513–14,106; ...": what the picture shows, in words.
std::string SpeedsText(const PageView& view) {
  std::vector<std::string> parts;
  for (const PageRow& row : view.rows) {
    if (row.result->samples_per_s().n() < 1) continue;
    parts.push_back(absl::StrCat(row.label, row.result->ranked() ? " " : " (control) ",
                                 SpeedText(row.result->samples_per_s())));
  }
  return absl::StrCat("Median samples per second: ", absl::StrJoin(parts, "; "), ".");
}

std::string BlockValues(const VariantResult& result) {
  std::string out;
  for (const double value : result.samples_per_s_by_block()) {
    absl::StrAppend(&out, out.empty() ? "" : " · ", "<span>", FormatValue(value), "</span>");
  }
  return out.empty() ? kNotMeasured : out;
}

std::string SpeedTable(const PageView& view, const std::string& id) {
  const std::vector<Column> columns = {{"Synchronisation"},
                                       {"Median, samples/s", "num"},
                                       {"Interval", "num"},
                                       {"Each block", "num wrap"}};
  std::string out = TableOpen(absl::StrCat(id, "-numbers"), absl::StrCat(id, "-title"), columns);
  for (const PageRow& row : view.rows) {
    const Interval& speed = row.result->samples_per_s();
    const std::string range = RangeText(speed);
    absl::StrAppend(&out, Row(row, columns,
                              {speed.n() > 0 ? FormatValue(speed.median()) : kNotMeasured,
                               range.empty() ? kNotMeasured : range, BlockValues(*row.result)}));
  }
  return out + TableClose();
}

// compute, exposed, wait: together the mean step.
std::vector<double> StepParts(const Anatomy& anatomy) {
  return {anatomy.compute(), anatomy.sync() - anatomy.wait(), anatomy.wait()};
}

bool HasAnatomy(const VariantResult& result) {
  return result.anatomy_us().compute() + result.anatomy_us().sync() > 0;
}

std::string AnatomyText(const PageView& view) {
  std::vector<std::string> parts;
  for (const PageRow& row : view.largest) {
    if (!HasAnatomy(*row.result)) continue;
    const std::vector<std::string> texts =
        FormatStackMilliseconds(StepParts(row.result->anatomy_us()));
    parts.push_back(absl::StrCat(row.label, " ", texts[3], " ms: computing ", texts[0],
                                 ", exposed exchange ", texts[1], ", waiting ", texts[2],
                                 "; hidden ",
                                 FormatMilliseconds(row.result->anatomy_us().hidden())));
  }
  return absl::StrCat("Mean step by parts. ", absl::StrJoin(parts, ". "), ".");
}

// "tcp: 31.2 µs a message and 0.412 ns a byte (2.43 GB/s)"
std::string LinkText(const MeasuredLink& link) {
  std::string out =
      absl::StrCat(link.link(), ": ", FormatValue(link.alpha_ns() / 1e3), " µs a message (alpha)");
  if (link.beta_ns_per_byte() > 0) {
    absl::StrAppend(&out, ", ", FormatValue(link.beta_ns_per_byte()), " ns a byte (beta, ",
                    FormatValue(1 / link.beta_ns_per_byte()), " GB/s)");
  }
  if (link.gamma_ns_per_byte() > 0) {
    absl::StrAppend(&out, ", ", FormatValue(link.gamma_ns_per_byte()), " ns a byte added (gamma)");
  }
  return out;
}

std::string PredictionNote(const PageView& view) {
  std::vector<std::string> links;
  int workers = 0;
  int processes = 0;
  for (const PageRow& row : view.largest) {
    if (!row.result->has_prediction()) continue;
    const std::string link = LinkText(row.result->prediction().link());
    const bool known = std::any_of(links.begin(), links.end(), [&](const std::string& each) {
      return each.substr(0, each.find(':')) == link.substr(0, link.find(':'));
    });
    if (!known) links.push_back(link);
    workers = std::max(workers, row.result->workers());
    processes = std::max(processes, row.result->workers() + row.result->servers());
  }
  std::string out =
      absl::StrCat("The cost of a link was measured by a ping-pong before the first step; ",
                   absl::StrJoin(links, "; "), ". n = ", workers,
                   " workers, s servers, S = ", FormatCount(view.run->model().gradient_bytes()),
                   " bytes of gradients.");
  if (view.run->host().cpu_bound() && processes > view.run->host().cores()) {
    absl::StrAppend(&out, " The model gives each process a core of its own; here ",
                    FormatCount(processes), " processes share ",
                    Plural(view.run->host().cores(), "core"),
                    ", so measured times are longer than the links need.");
  }
  return Note(out);
}

}  // namespace

std::string ThroughputHtml(const PageView& view) {
  const bool measured = std::any_of(view.rows.begin(), view.rows.end(), [](const PageRow& row) {
    return row.result->samples_per_s().n() > 0 && row.result->samples_per_s().median() > 0;
  });
  if (!measured) return "";
  const std::string id = view.swept ? "scaling" : "throughput";
  const std::string sub = absl::StrCat(
      "Samples per second of all workers together, ", TimeCaveat(*view.run), ". ",
      view.swept
          ? "Mark: median. Brackets: its interval. Dotted: linear from the fewest workers on."
          : "Mark: median. Brackets: its interval. Ticks below: one per block.");
  return absl::StrCat(
      SectionOpen(id, view.swept ? ScalingFinding(view) : "Throughput", sub),
      PictureHtml(
          {.id = id, .description = SpeedsText(view), .numbers_html = SpeedTable(view, id)}),
      "</section>\n");
}

std::string AnatomyHtml(const PageView& view) {
  const std::vector<Column> columns = {
      {"Synchronisation"},    {"Computing, ms", "num"}, {"Exposed exchange, ms", "num"},
      {"Waiting, ms", "num"}, {"Mean step, ms", "num"}, {"Hidden exchange, ms", "num"}};
  std::string rows;
  for (const PageRow& row : view.largest) {
    if (!HasAnatomy(*row.result)) continue;
    const Anatomy& anatomy = row.result->anatomy_us();
    std::vector<std::string> cells = FormatStackMilliseconds(StepParts(anatomy));
    cells.push_back(FormatMilliseconds(anatomy.hidden()));
    absl::StrAppend(&rows, Row(row, columns, cells));
  }
  if (rows.empty()) return "";
  const std::string sub = absl::StrCat(
      "The mean step of a worker, ", TimeCaveat(*view.run), ".", SizeText(view),
      " Exposed: exchange and update that nothing hid. Waiting: for the last worker’s gradients. "
      "Hidden: exchange beside the backward pass, not part of the step’s length.");
  return absl::StrCat(SectionOpen("anatomy", AnatomyFinding(view), sub),
                      PictureHtml({.id = "anatomy",
                                   .description = AnatomyText(view),
                                   .numbers_html = absl::StrCat(
                                       TableOpen("anatomy-numbers", "anatomy-title", columns), rows,
                                       TableClose())}),
                      "</section>\n");
}

std::string PredictionHtml(const PageView& view) {
  const std::vector<Column> columns = {{"Synchronisation"},
                                       {"Formula", "text"},
                                       {"Predicted, ms", "num"},
                                       {"Measured, ms", "num"},
                                       {"Measured / predicted", "num"}};
  std::string rows;
  for (const PageRow& row : view.largest) {
    if (!row.result->has_prediction()) continue;
    const Prediction& prediction = row.result->prediction();
    const Anatomy& anatomy = row.result->anatomy_us();
    const double measured = anatomy.sync() - anatomy.wait() + anatomy.hidden();
    const double predicted = prediction.exchange_us();
    absl::StrAppend(&rows,
                    Row(row, columns,
                        {Escape(prediction.formula()), FormatMilliseconds(predicted),
                         HasAnatomy(*row.result) ? FormatMilliseconds(measured) : kNotMeasured,
                         HasAnatomy(*row.result) && predicted > 0
                             ? absl::StrCat(FormatValue(measured / predicted), " ×")
                             : kNotMeasured}));
  }
  if (rows.empty()) return "";
  const std::string sub = absl::StrCat(
      "The exchange of one step, predicted by the alpha-beta model, not measured, beside what was "
      "measured: exposed and hidden exchange together, update included, ",
      TimeCaveat(*view.run), ".", SizeText(view));
  return absl::StrCat(SectionOpen("prediction", "Predicted beside measured", sub),
                      TableOpen("prediction", "prediction-title", columns), rows, TableClose(),
                      PredictionNote(view), "</section>\n");
}

}  // namespace lockstep
