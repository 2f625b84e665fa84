// What losses cost in ways that went on after them, and which pushes came too late.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "experiments/report/html.h"
#include "experiments/report/number.h"
#include "experiments/report/sections.h"

namespace lockstep {
namespace {

std::string SecondsText(bool measured, const Interval& interval) {
  if (!measured || interval.n() < 1) return kNotMeasured;
  std::string out = absl::StrCat(FormatValue(interval.median()), " s");
  if (interval.n() > 1) {
    absl::StrAppend(
        &out, " ",
        Quiet(absl::StrCat(FormatValue(interval.low()), "–", FormatValue(interval.high()))));
  }
  return out;
}

std::string LostText(double versions) {
  return versions == 0 ? "none" : absl::StrCat(FormatCount(versions), ", made again");
}

}  // namespace

std::string RecoveryHtml(const PageView& view) {
  const std::vector<Column> columns = {{"Synchronisation"},
                                       {"Losses", "num"},
                                       {"Nobody trained", "num"},
                                       {"Without a copy", "num"},
                                       {"Acknowledged updates lost"},
                                       {"Steps redone", "num"},
                                       {"Repeated pushes", "num"},
                                       {"State moved", "num"},
                                       {"Samples/s, all in all", "num"}};
  std::string rows;
  for (const PageRow& row : view.rows) {
    if (!row.result->has_recovery()) continue;
    const RecoveryResult& recovery = row.result->recovery();
    absl::StrAppend(&rows,
                    Row(row, columns,
                        {FormatCount(recovery.losses()),
                         SecondsText(recovery.has_unavailable_s(), recovery.unavailable_s()),
                         SecondsText(recovery.has_exposed_s(), recovery.exposed_s()),
                         LostText(recovery.lost_versions()), FormatCount(recovery.redone_steps()),
                         FormatCount(recovery.duplicates()), FormatBytes(recovery.transfer_bytes()),
                         FormatCount(recovery.goodput_samples_per_s())}));
  }
  if (rows.empty()) return "";
  return absl::StrCat(
      SectionOpen("recovery", "What a loss cost",
                  "Members were lost, as planned or not, and the run went on. Medians over all "
                  "losses of all runs."),
      TableOpen("recoveries", "recovery-title", columns), rows, TableClose(),
      Note("Nobody trained: from when the first worker noticed until the last one went on. Without "
           "a copy: until every shard had all its copies again. Repeated pushes were known by "
           "worker and step, and not applied again."),
      "</section>\n");
}

std::string PushesHtml(const PageView& view) {
  const std::vector<Column> columns = {{"Synchronisation"},
                                       {"Worker", "num"},
                                       {"Accepted", "num"},
                                       {"Dropped", "num"},
                                       {"Share dropped", "num"}};
  std::string rows;
  for (const PageRow& row : view.largest) {
    for (const PushCount& count : row.result->pushes()) {
      const double all = count.accepted() + count.rejected();
      absl::StrAppend(&rows, Row(row, columns,
                                 {FormatCount(count.worker()), FormatCount(count.accepted()),
                                  FormatCount(count.rejected()),
                                  all > 0 ? FormatShare(count.rejected() / all) : kNotMeasured}));
    }
  }
  if (rows.empty()) return "";
  return absl::StrCat(
      SectionOpen("pushes", "Whose gradients came too late",
                  absl::StrCat("An update is made of the first pushes that were computed from the "
                               "parameters it changes; what comes later is dropped, and its "
                               "samples are spent for nothing.",
                               SizeText(view))),
      TableOpen("late", "pushes-title", columns), rows, TableClose(), "</section>\n");
}

}  // namespace lockstep
