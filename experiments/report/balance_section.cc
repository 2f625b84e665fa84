// What each parameter server holds of the model, and what that made it carry.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "experiments/analyse/balance.h"
#include "experiments/report/html.h"
#include "experiments/report/number.h"
#include "experiments/report/sections.h"

namespace lockstep {
namespace {

std::string ServerRows(const PageRow& row, const std::vector<Column>& columns) {
  const BalanceResult& balance = row.result->balance();
  double total = 0;
  for (const ServerShare& share : balance.server()) total += share.bytes();
  std::string rows;
  for (int k = 0; k < balance.server_size(); ++k) {
    const ServerShare& share = balance.server(k);
    const bool idle = std::count(balance.idle().begin(), balance.idle().end(), k) > 0;
    absl::StrAppend(
        &rows, Row(row, columns,
                   {absl::StrCat(FormatCount(k), idle ? Quiet(" nearly idle") : ""),
                    FormatBytes(share.bytes()), FormatShare(share.bytes() / total),
                    FormatCount(share.tensors()),
                    share.has_in_per_step() ? FormatBytes(share.in_per_step()) : kNotMeasured,
                    share.has_out_per_step() ? FormatBytes(share.out_per_step()) : kNotMeasured}));
  }
  return rows;
}

}  // namespace

std::string BalanceHtml(const PageView& view) {
  const std::vector<Column> columns = {
      {"Synchronisation"}, {"Server", "num"},     {"Holds", "num"},      {"Of all", "num"},
      {"Tensors", "num"},  {"Counted in", "num"}, {"Counted out", "num"}};
  std::string rows;
  std::string notes;
  double most = 0;
  for (const PageRow& row : view.largest) {
    if (row.result->balance().server_size() < 2) continue;
    rows += ServerRows(row, columns);
    notes += Note(
        absl::StrCat(NameOf(*row.result), ", placed ", BalanceText(row.result->balance()), "."));
    most = std::max(most, row.result->balance().max_over_mean());
  }
  if (rows.empty()) return "";
  return absl::StrCat(
      SectionOpen("balance",
                  most > kBalancedMax ? "One server holds more than its part of the model"
                                      : "Every server holds an equal part of the model",
                  absl::StrCat("Bytes of one worker’s gradients that a server holds, and all "
                               "that it counted in a step.",
                               SizeText(view))),
      TableOpen("servers", "balance-title", columns), rows, TableClose(), notes, "</section>\n");
}

}  // namespace lockstep
