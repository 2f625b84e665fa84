// Which ways end with the same parameters, to the bit, and why the others do not.
#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "experiments/analyse/bits.h"
#include "experiments/report/addition_order.h"
#include "experiments/report/findings.h"
#include "experiments/report/html.h"
#include "experiments/report/number.h"
#include "experiments/report/sections.h"

namespace lockstep {
namespace {

constexpr size_t kHashShown = 12;  // digits; the whole hash stands in the title
constexpr size_t kTreesShown = 4;  // a ring over n workers has n

std::string HashHtml(const std::string& hash) {
  const std::string shown = hash.size() > kHashShown ? hash.substr(0, kHashShown) + "…" : hash;
  return absl::StrCat("<code title=\"", Escape(hash), "\">", Escape(shown), "</code>");
}

// 1e8, 1, -1e8, 1, ...: f32 holds each of them, but not 1e8 + 1.
std::vector<float> Example(int workers) {
  constexpr float kPattern[] = {1e8F, 1, -1e8F, 1};
  std::vector<float> values;
  values.reserve(static_cast<size_t>(workers));
  for (int rank = 0; rank < workers; ++rank) values.push_back(kPattern[rank % 4]);
  return values;
}

std::string ExampleText(int workers) {
  const std::vector<float> values = Example(workers);
  return absl::StrJoin(values, ", ", [](std::string* out, float value) {
    absl::StrAppend(out, FormatCount(value));
  });
}

double ExactSum(int workers) {
  double sum = 0;  // of whole numbers far below 2^53
  for (const float value : Example(workers)) sum += value;
  return sum;
}

// What the variant's own order makes of the example: "0 or 2", by element.
std::string ObtainedText(const VariantResult& result, bool exact) {
  if (exact) return FormatCount(ExactSum(result.workers()));
  std::set<float> sums;
  for (const AdditionShare& share : ReadAdditionOrder(result.addition_order())) {
    const std::optional<float> sum = AddInOrder(share.tree, Example(result.workers()));
    if (!sum) return kNotMeasured;
    sums.insert(*sum);
  }
  if (sums.empty()) return kNotMeasured;
  return absl::StrJoin(sums, " or ",
                       [](std::string* out, float sum) { absl::StrAppend(out, FormatCount(sum)); });
}

std::string OrderHtml(const VariantResult& result, bool exact) {
  const std::vector<AdditionShare> shares = ReadAdditionOrder(result.addition_order());
  if (exact) return "does not matter";
  if (shares.empty()) {
    return result.addition_order().empty() ? kNotMeasured : "too long to show; see run.json";
  }
  double elements = 0;
  for (const AdditionShare& share : shares) elements += share.elements;
  std::vector<std::string> lines;
  for (const AdditionShare& share : shares) {
    if (lines.size() == kTreesShown) {
      lines.push_back(absl::StrCat(shares.size() - kTreesShown, " more orders"));
      break;
    }
    lines.push_back(absl::StrCat(
        "<code>", Escape(share.tree), "</code>",
        shares.size() > 1 ? absl::StrCat(" ", Quiet(FormatShare(share.elements / elements))) : ""));
  }
  return absl::StrJoin(lines, "<br>");
}

std::string OthersText(const BitsGroup& group, const VariantResult* own) {
  std::vector<std::string> names;
  for (const VariantResult* result : group) {
    if (result != own) names.push_back(NameOf(*result));
  }
  return names.empty() ? "none" : Escape(absl::StrJoin(names, ", "));
}

std::string WhyNote(const PageView& view) {
  const int workers = view.largest[0].result->workers();
  if (IsExact(*view.run)) {
    return Note(
        "EXACT adds whole numbers with one exponent for each block of 1,024 elements. Such sums do "
        "not depend on the order, so every synchronous way must end with the same bits.");
  }
  return Note(absl::StrCat(
      "A float sum is rounded after each addition, so its order decides the last bits. Ways that "
      "add in the same order end with the same bits; others need not, though each way’s replicas "
      "agree, because each sum is made once and copied. Example: ",
      ExampleText(workers), ", one from each worker, add up to ", FormatCount(ExactSum(workers)),
      "; the last column is what f32 gives in each way’s own order. With reduction_order: EXACT "
      "all ways agree."));
}

std::string ConflictHtml(const RunFile& run) {
  const std::optional<BitsConflict> conflict = FindBitsConflict(run);
  if (!conflict) return "";
  return absl::StrCat("<p class=\"note\"><span class=\"bad\">✗ broken promise:</span> ",
                      Escape(conflict->first->id()), " and ", Escape(conflict->second->id()),
                      IsExact(run) ? " end with different bits under EXACT.</p>\n"
                                   : " add in the same order and end with different bits.</p>\n");
}

const PageRow& RowOf(const PageView& view, const VariantResult* result) {
  return *std::find_if(view.largest.begin(), view.largest.end(),
                       [&](const PageRow& row) { return row.result == result; });
}

}  // namespace

std::string SameBitsHtml(const PageView& view) {
  const std::vector<BitsGroup> groups = GroupByBits(ResultsOf(view.largest));
  size_t ways = 0;
  for (const BitsGroup& group : groups) ways += group.size();
  if (ways < 2) return "";
  const bool exact = IsExact(*view.run);
  const std::vector<Column> columns = {{"Synchronisation"},
                                       {"Final parameters", "num"},
                                       {"Same bits as", "text"},
                                       {"Order of additions, g0 of worker 0", "text"},
                                       {"Sum of the example", "num"}};
  std::string out = absl::StrCat(
      SectionOpen("bits", SameBitsFinding(view),
                  absl::StrCat("Final parameters of the first seed, by hash; synchronous ways that "
                               "ran to their end.",
                               SizeText(view))),
      TableOpen("bits", "bits-title", columns));
  for (const BitsGroup& group : groups) {
    for (const VariantResult* result : group) {
      absl::StrAppend(&out, Row(RowOf(view, result), columns,
                                {HashHtml(result->final_hash()), OthersText(group, result),
                                 OrderHtml(*result, exact), ObtainedText(*result, exact)}));
    }
  }
  return absl::StrCat(out, TableClose(), ConflictHtml(*view.run), WhyNote(view), "</section>\n");
}

}  // namespace lockstep
