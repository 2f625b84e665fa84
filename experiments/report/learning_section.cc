// Without waiting: how old updates are, and what that costs in samples and time.
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "experiments/analyse/speed.h"
#include "experiments/report/findings.h"
#include "experiments/report/html.h"
#include "experiments/report/number.h"
#include "experiments/report/sections.h"

namespace lockstep {
namespace {

// "0: 412 · 1: 388 · ...": updates of each staleness, over all servers.
std::string HistogramHtml(const StalenessResult& staleness, bool clock) {
  std::vector<double> counts;
  for (const ServerStaleness& server : staleness.server()) {
    const auto& own = clock ? server.clock() : server.update();
    counts.resize(std::max(counts.size(), static_cast<size_t>(own.size())));
    for (int i = 0; i < own.size(); ++i) counts[static_cast<size_t>(i)] += own[i];
  }
  std::vector<std::string> parts;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    parts.push_back(absl::StrCat("<span>", i, ": ", FormatCount(counts[i]), "</span>"));
  }
  return parts.empty() ? kNotMeasured : absl::StrJoin(parts, " · ");
}

std::string ServersHtml(const StalenessResult& staleness) {
  std::vector<std::string> parts;
  for (const ServerStaleness& server : staleness.server()) {
    parts.push_back(absl::StrCat("<span>server ", server.server(), ": updates ",
                                 FormatValue(server.mean_update()), ", clock ",
                                 FormatValue(server.mean_clock()), ", gap share ",
                                 FormatShare(server.gap_share()), "</span>"));
  }
  return parts.empty() ? kNotMeasured : absl::StrJoin(parts, " · ");
}

std::string StalenessText(const PageView& view) {
  std::vector<std::string> parts;
  for (const PageRow& row : view.largest) {
    if (!row.result->has_staleness()) continue;
    const StalenessResult& staleness = row.result->staleness();
    parts.push_back(absl::StrCat(row.label, ": mean update count ",
                                 FormatValue(staleness.mean_update()), ", by the law ",
                                 FormatValue(staleness.expected_mean()), "; mean clock ",
                                 FormatValue(staleness.mean_clock())));
  }
  return absl::StrCat("How old updates are when they are applied. ", absl::StrJoin(parts, ". "),
                      ".");
}

std::string AppliedHtml(const StalenessResult& staleness) {
  const bool all = staleness.applied() == staleness.expected_applied();
  return absl::StrCat(FormatCount(staleness.applied()), " of ",
                      FormatCount(staleness.expected_applied()),
                      all ? "" : " <span class=\"bad\">✗ differ</span>");
}

std::string StalenessPicture(const PageView& view) {
  const std::vector<Column> columns = {{"Synchronisation"},
                                       {"Clock staleness: updates", "wrap"},
                                       {"Update count: updates", "wrap"},
                                       {"Means of each server", "wrap"}};
  std::string rows;
  for (const PageRow& row : view.largest) {
    if (!row.result->has_staleness()) continue;
    const StalenessResult& staleness = row.result->staleness();
    absl::StrAppend(&rows, Row(row, columns,
                               {HistogramHtml(staleness, true), HistogramHtml(staleness, false),
                                ServersHtml(staleness)}));
  }
  if (rows.empty()) return "";
  return PictureHtml(
      {.id = "staleness",
       .description = StalenessText(view),
       .numbers_html = absl::StrCat(TableOpen("staleness-numbers", "staleness-title", columns),
                                    rows, TableClose())});
}

bool HasLoss(const VariantResult& result) { return result.loss().value_size() > 0; }

// "step 1: 2.31 · step 20: 0.940 · ...": a few of many steps, the first and the last among them.
std::string LossValues(const LossResult& loss) {
  constexpr int kShown = 8;
  const int n = loss.value_size();
  std::vector<std::string> parts;
  int last = -1;
  for (int i = 0; i < kShown && n > 0; ++i) {
    const int at = i * (n - 1) / (kShown - 1);
    if (at == last || at >= loss.step_size()) continue;
    last = at;
    parts.push_back(absl::StrCat("<span>step ", FormatCount(loss.step(at)), ": ",
                                 FormatValue(loss.value(at)), "</span>"));
  }
  return absl::StrJoin(parts, " · ");
}

std::string LossText(const PageView& view) {
  std::vector<std::string> parts;
  for (const PageRow& row : view.largest) {
    const LossResult& loss = row.result->loss();
    if (!HasLoss(*row.result)) continue;
    parts.push_back(absl::StrCat(
        row.label, " ",
        FormatValue(loss.has_final() ? loss.final() : loss.value(loss.value_size() - 1))));
  }
  return absl::StrCat("Training loss, mean over workers. Final loss: ", absl::StrJoin(parts, "; "),
                      ".");
}

std::string MedianText(const Interval& interval, const std::function<std::string(double)>& format) {
  if (interval.n() < 1) return kNotMeasured;
  std::string out = format(interval.median());
  if (interval.n() > 1) {
    absl::StrAppend(&out, " ",
                    Quiet(absl::StrCat(format(interval.low()), "–", format(interval.high()))));
  }
  return out;
}

std::string ReachedText(const VariantResult& result) {
  if (!result.has_target()) return kNotMeasured;
  return absl::StrCat(result.target().reached(), " of ", Plural(result.target().seeds(), "seed"));
}

std::string OptionalValue(bool has, double value) {
  return has ? FormatValue(value) : kNotMeasured;
}

// Losses at equal budgets, and what the target took; columns that nothing fills are left out.
struct Budgets {
  bool equal = false;                    // some variant has a loss at equal samples
  const TargetResult* target = nullptr;  // the first that has one
};

Budgets FindBudgets(const PageView& view) {
  Budgets budgets;
  for (const PageRow& row : view.largest) {
    budgets.equal = budgets.equal || row.result->loss().has_at_equal_samples();
    if (budgets.target == nullptr && row.result->has_target()) {
      budgets.target = &row.result->target();
    }
  }
  return budgets;
}

std::string TargetTable(const PageView& view, const Budgets& budgets) {
  std::vector<Column> columns = {{"Synchronisation"}, {"Final loss", "num"}};
  if (budgets.equal) {
    columns.push_back({"At equal samples", "num"});
    columns.push_back({"At equal time", "num"});
  }
  if (budgets.target != nullptr) {
    columns.push_back({"Seconds to target", "num"});
    columns.push_back({"Samples to target", "num"});
    columns.push_back({"Reached it", "num"});
  }
  std::string out = TableOpen("losses", "loss-title", columns);
  for (const PageRow& row : view.largest) {
    if (!HasLoss(*row.result)) continue;
    const LossResult& loss = row.result->loss();
    std::vector<std::string> cells = {OptionalValue(loss.has_final(), loss.final())};
    if (budgets.equal) {
      cells.push_back(OptionalValue(loss.has_at_equal_samples(), loss.at_equal_samples()));
      cells.push_back(OptionalValue(loss.has_at_equal_time(), loss.at_equal_time()));
    }
    if (budgets.target != nullptr) {
      cells.push_back(MedianText(row.result->target().time_s(), FormatValue));
      cells.push_back(MedianText(row.result->target().samples(), FormatCount));
      cells.push_back(ReachedText(*row.result));
    }
    absl::StrAppend(&out, Row(row, columns, cells));
  }
  return out + TableClose();
}

std::string TargetNote(const Budgets& budgets) {
  std::string out;
  if (budgets.equal) {
    out =
        "Equal samples: where every variant has trained as many. Equal time: when the fastest one "
        "ended. Both smoothed.";
  }
  if (const TargetResult* target = budgets.target; target != nullptr) {
    absl::StrAppend(&out, out.empty() ? "" : " ", "Target: loss ", FormatValue(target->loss()),
                    ", median over the seeds that reached it.");
    if (target->seeds() < kSureBlocks) {
      absl::StrAppend(&out, " Preliminary: ", Plural(target->seeds(), "seed"), ", a claim needs ",
                      kSureBlocks, ".");
    }
  }
  return Note(out);
}

}  // namespace

std::string StalenessHtml(const PageView& view) {
  const std::string picture = StalenessPicture(view);
  if (picture.empty()) return "";
  const std::vector<Column> columns = {
      {"Synchronisation"},  {"Mean update count", "num"}, {"By the law", "num"},
      {"Gap share", "num"}, {"Mean clock", "num"},        {"Updates applied, per shard", "num"}};
  std::string out = absl::StrCat(
      SectionOpen(
          "staleness", StalenessFinding(view),
          absl::StrCat("Two counts, never mixed. Clock: steps by which the slowest worker’s "
                       "part of what was read lags behind. Update count: others’ updates "
                       "applied between a worker’s read and its own update.",
                       SizeText(view))),
      picture, TableOpen("stale", "staleness-title", columns));
  for (const PageRow& row : view.largest) {
    if (!row.result->has_staleness()) continue;
    const StalenessResult& staleness = row.result->staleness();
    absl::StrAppend(
        &out, Row(row, columns,
                  {FormatValue(staleness.mean_update()), FormatValue(staleness.expected_mean()),
                   FormatShare(staleness.gap_share()), FormatValue(staleness.mean_clock()),
                   AppliedHtml(staleness)}));
  }
  return absl::StrCat(
      out, TableClose(),
      Note("The law: (n-1)(1 - gap share). The gap is a worker’s time between its update and its "
           "next read at a server, as a share of the time between its updates; the first 10 steps "
           "are left out."),
      "</section>\n");
}

std::string LossHtml(const PageView& view) {
  const bool measured = std::any_of(view.largest.begin(), view.largest.end(),
                                    [](const PageRow& row) { return HasLoss(*row.result); });
  if (!measured) return "";
  const std::vector<Column> columns = {{"Synchronisation"}, {"Some of the values", "wrap"}};
  std::string rows;
  for (const PageRow& row : view.largest) {
    if (HasLoss(*row.result)) {
      absl::StrAppend(&rows, Row(row, columns, {LossValues(row.result->loss())}));
    }
  }
  const Budgets budgets = FindBudgets(view);
  return absl::StrCat(
      SectionOpen("loss", LossFinding(view),
                  absl::StrCat("Training loss, mean over workers and runs. Times: ",
                               TimeCaveat(*view.run), ".", SizeText(view))),
      PictureHtml({.id = "loss",
                   .description = LossText(view),
                   .numbers_html = absl::StrCat(TableOpen("loss-numbers", "loss-title", columns),
                                                rows, TableClose())}),
      TargetTable(view, budgets), TargetNote(budgets), "</section>\n");
}

}  // namespace lockstep
