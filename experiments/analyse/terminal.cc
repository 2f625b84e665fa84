#include "experiments/analyse/terminal.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "experiments/analyse/terminal_next.h"
#include "experiments/analyse/terminal_table.h"
#include "experiments/analyse/terminal_text.h"
#include "experiments/analyse/verdict.h"

namespace lockstep {
namespace {

// Ranked first, fastest first where the verdict decided it; otherwise as in the spec. The control
// is last.
std::vector<const VariantResult*> InOrder(const RunFile& run) {
  std::vector<const VariantResult*> order;
  for (const VariantResult& variant : run.runs()) order.push_back(&variant);
  const bool by_speed = run.verdict().rule() == kRuleFaster;
  std::stable_sort(order.begin(), order.end(), [&](const VariantResult* a, const VariantResult* b) {
    if (a->ranked() != b->ranked()) return a->ranked();
    return by_speed && a->ranked() && a->samples_per_s().median() > b->samples_per_s().median();
  });
  return order;
}

// After a failure the next thing to read are the logs, not another sweep.
std::string Ending(const RunFile& run, const TerminalOptions& options) {
  if (run.verdict().rule() != kRuleStopped) return absl::StrCat("\n", TryNext(run, options));
  if (options.logs_path.empty()) return "";
  return absl::StrCat("\nLogs: ", PathText(options.logs_path), "\n");
}

}  // namespace

std::string RenderTerminal(const RunFile& run, const TerminalOptions& options) {
  const std::vector<const VariantResult*> variants = InOrder(run);
  std::string text = Wrap(run.verdict().head(), "");
  if (!run.verdict().why().empty()) absl::StrAppend(&text, "\n", Wrap(run.verdict().why(), ""));
  if (!variants.empty()) {
    absl::StrAppend(&text, "\n", TerminalTable(variants), TerminalNotes(variants));
  }
  absl::StrAppend(&text, "\n", Wrap(run.verdict().caveat(), ""));
  if (!options.report_path.empty()) {
    absl::StrAppend(&text, "\nReport:\n  ", PathText(options.report_path), "\n");
  }
  absl::StrAppend(&text, Ending(run, options));
  return text;
}

}  // namespace lockstep
