#include "allreduce/host/call_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace lockstep {
namespace {

constexpr size_t kLinesMax = 64;

using Reports = std::vector<std::optional<FailureReport>>;

// The call that most ranks have made; of equally common ones that of the lowest rank.
const CallDescription* MostCommon(const Reports& reports) {
  const CallDescription* best = nullptr;
  std::ptrdiff_t best_ranks = 0;
  for (const auto& report : reports) {
    if (!report.has_value()) continue;
    const auto ranks = std::count_if(reports.begin(), reports.end(), [&](const auto& other) {
      return other.has_value() && other->call == report->call;
    });
    if (ranks <= best_ranks) continue;
    best = &report->call;
    best_ranks = ranks;
  }
  return best;
}

// A rank that is a call ahead or in another group is marked only where no other rank differs.
size_t FirstThatDiffers(const Reports& reports, const CallDescription& common) {
  size_t apart = reports.size();
  for (size_t rank = 0; rank < reports.size(); ++rank) {
    const auto& report = reports[rank];
    if (!report.has_value() || report->call == common) continue;
    if (report->call.sequence == common.sequence && report->call.group == common.group) return rank;
    apart = std::min(apart, rank);
  }
  return apart;
}

}  // namespace

std::string CallTable(const Reports& reports) {
  const CallDescription* common = MostCommon(reports);
  const size_t marked = common == nullptr ? reports.size() : FirstThatDiffers(reports, *common);
  std::string table;
  size_t left_out = 0;
  for (size_t rank = 0; rank < reports.size(); ++rank) {
    if (rank >= kLinesMax && rank != marked) {
      ++left_out;
      continue;
    }
    absl::StrAppend(&table, rank == marked ? "\n> rank " : "\n  rank ", rank, ": ",
                    reports[rank].has_value() ? ToString(reports[rank]->call) : "no report");
  }
  if (left_out > 0) absl::StrAppend(&table, "\n  and ", left_out, " more ranks");
  return table;
}

}  // namespace lockstep
