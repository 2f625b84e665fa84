#include <algorithm>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "experiments/analyse/verdict.h"
#include "experiments/report/html.h"
#include "experiments/report/number.h"
#include "experiments/report/sections.h"

namespace lockstep {
namespace {

constexpr size_t kLongHeadlineBytes = 90;  // set smaller, or it would fill a phone
constexpr size_t kLongFactBytes = 22;      // more than one value: set smaller, or it takes 3 lines

std::string FactsHtml(const VerdictInfo& verdict) {
  if (verdict.facts().empty()) return "";
  std::string out = "<dl class=\"facts\">\n";
  for (const Fact& fact : verdict.facts()) {
    absl::StrAppend(&out, "<div><dt>", Escape(fact.label()), "</dt><dd",
                    fact.value().size() > kLongFactBytes ? " class=\"long\">" : ">",
                    Escape(fact.value()), "</dd></div>\n");
  }
  absl::StrAppend(&out, "</dl>\n");
  return out;
}

// "ring, block 2, step 31": where it happened, as far as known. Steps count from 1.
std::string Place(const FailureInfo& failure) {
  std::string out;
  if (!failure.variant().empty()) absl::StrAppend(&out, failure.variant(), ", ");
  if (failure.block() > 0) absl::StrAppend(&out, "block ", failure.block(), ", ");
  if (failure.step() <= 0) return absl::StrCat(out, "before the first step");
  return absl::StrCat(out, "step ", FormatCount(failure.step()));
}

std::string FailuresHtml(const RunFile& run) {
  if (run.failures().empty()) return "";
  std::string out =
      "<section class=\"failures\" aria-labelledby=\"failures-title\">\n"
      "<h2 id=\"failures-title\">What went wrong</h2>\n<ol>\n";
  for (const FailureInfo& failure : run.failures()) {
    absl::StrAppend(&out, failure.consequence() ? "<li class=\"consequence\"><b>" : "<li><b>",
                    Escape(failure.member()), "</b> ",
                    failure.consequence() ? "stopped " : (failure.lost() ? "was lost " : "failed "),
                    Quiet(Place(failure)),
                    failure.consequence() ? " <span class=\"tag\">consequence</span>" : "", "<br>",
                    Escape(failure.message()), "</li>\n");
  }
  absl::StrAppend(&out, "</ol>\n</section>\n");
  return out;
}

}  // namespace

PageView MakeView(const RunFile& run) {
  PageView view{.run = &run, .rows = {}, .largest = {}, .swept = false};
  int workers = 0;
  for (const VariantResult& result : run.runs()) {
    view.swept = view.swept || result.workers() != run.runs(0).workers();
    workers = std::max(workers, result.workers());
  }
  const std::vector<Series> series = AssignSeries(run);
  for (int i = 0; i < run.runs_size(); ++i) {
    const VariantResult& result = run.runs(i);
    std::string label = result.label().empty() ? result.id() : result.label();
    if (view.swept) absl::StrAppend(&label, ", ", Plural(result.workers(), "worker"));
    view.rows.push_back({&result, i, series[static_cast<size_t>(i)], label});
  }
  // Fastest first is a claim about speed: only where the verdict makes it, as in the terminal.
  const bool by_speed = run.verdict().rule() == kRuleFaster;
  std::stable_sort(
      view.rows.begin(), view.rows.end(), [by_speed](const PageRow& a, const PageRow& b) {
        if (a.result->ranked() != b.result->ranked()) return a.result->ranked();
        return by_speed && a.result->samples_per_s().median() > b.result->samples_per_s().median();
      });
  std::copy_if(view.rows.begin(), view.rows.end(), std::back_inserter(view.largest),
               [workers](const PageRow& row) { return row.result->workers() == workers; });
  return view;
}

std::vector<const VariantResult*> ResultsOf(const std::vector<PageRow>& rows) {
  std::vector<const VariantResult*> results;
  results.reserve(rows.size());
  for (const PageRow& row : rows) results.push_back(row.result);
  return results;
}

std::string Headline(const RunFile& run) {
  if (!run.verdict().head().empty()) return run.verdict().head();
  if (run.state() == "failed") {
    if (run.failures().empty()) return "The run failed: partial results";
    return absl::StrCat("The run failed: ", run.failures(0).member(), ", ", Place(run.failures(0)));
  }
  if (run.state() == "aborted") return "The run was stopped early: partial results";
  if (run.experiment().name().empty()) return "Results without a verdict";
  return absl::StrCat("Results of ", run.experiment().name());
}

std::string TimeBaseText(const RunFile& run) {
  const std::string& base = run.experiment().time_base();
  if (base == "wall") return "wall clock";
  if (base == "shaped") return "shaped links";
  if (base == "virtual") return "virtual time";
  return base.empty() ? "time base unknown" : base;
}

std::string TimeCaveat(const RunFile& run) {
  return absl::StrCat(TimeBaseText(run),
                      run.host().cpu_bound() ? "; the processors of this host were the limit" : "");
}

std::string SizeText(const PageView& view) {
  if (!view.swept || view.largest.empty()) return "";
  return absl::StrCat(" At ", Plural(view.largest[0].result->workers(), "worker"), ".");
}

std::string HeadHtml(const PageView& view) {
  const RunFile& run = *view.run;
  const VerdictInfo& verdict = run.verdict();
  std::string out;
  if (run.state() != "complete") {
    absl::StrAppend(&out, "<p class=\"state\"><span class=\"tag bad\">",
                    Escape(run.state().empty() ? "state unknown" : run.state()), "</span></p>\n");
  }
  const std::string headline = Headline(run);
  const bool is_long = headline.size() > kLongHeadlineBytes;
  absl::StrAppend(&out, is_long ? "<h1 class=\"long\">" : "<h1>", Escape(headline), "</h1>\n");
  if (!verdict.why().empty()) {
    absl::StrAppend(&out, "<p class=\"lead\">", Escape(verdict.why()), "</p>\n");
  }
  absl::StrAppend(&out, FactsHtml(verdict));
  if (!verdict.caveat().empty()) {
    absl::StrAppend(&out, "<p class=\"caveat\">", Escape(verdict.caveat()), "</p>\n");
  }
  absl::StrAppend(&out, FailuresHtml(run));
  return out;
}

}  // namespace lockstep
