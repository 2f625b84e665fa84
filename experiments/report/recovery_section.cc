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

std::string SecondsText(bool measured, const Quantiles& seconds) {
  if (!measured) return kNotMeasured;
  std::string out = absl::StrCat(FormatValue(seconds.p50()), " s");
  if (seconds.max() > seconds.p50()) {
    absl::StrAppend(
        &out, " ",
        Quiet(absl::StrCat(FormatValue(seconds.p95()), ", ", FormatValue(seconds.max()))));
  }
  return out;
}

std::string LostText(double versions) {
  return versions == 0 ? "none" : absl::StrCat(FormatCount(versions), ", made again");
}

}  // namespace

std::string RecoveryHtml(const PageView& view) {
  const std::vector<Column> columns = {
      {"Synchronisation"},        {"Losses", "num"},
      {"False", "num"},           {"Noticed after", "num"},
      {"Recovered in", "num"},    {"Nobody trained", "num"},
      {"Planned changes", "num"}, {"Each took", "num"},
      {"Without a copy", "num"},  {"Acknowledged updates lost"},
      {"Steps redone", "num"},    {"Repeated pushes", "num"},
      {"State moved", "num"},     {"Samples/s, all in all", "num"}};
  std::string rows;
  for (const PageRow& row : view.rows) {
    if (!row.result->has_recovery()) continue;
    const RecoveryResult& recovery = row.result->recovery();
    absl::StrAppend(&rows,
                    Row(row, columns,
                        {FormatCount(recovery.losses()), FormatCount(recovery.false_failovers()),
                         SecondsText(recovery.has_detection_s(), recovery.detection_s()),
                         SecondsText(recovery.has_recovery_s(), recovery.recovery_s()),
                         SecondsText(recovery.has_unavailable_s(), recovery.unavailable_s()),
                         FormatCount(recovery.changes()),
                         SecondsText(recovery.has_pause_s(), recovery.pause_s()),
                         SecondsText(recovery.has_exposed_s(), recovery.exposed_s()),
                         LostText(recovery.lost_versions()), FormatCount(recovery.redone_steps()),
                         FormatCount(recovery.duplicates()), FormatBytes(recovery.transfer_bytes()),
                         FormatCount(recovery.goodput_samples_per_s())}));
  }
  if (rows.empty()) return "";
  return absl::StrCat(
      SectionOpen("recovery", "What a loss cost",
                  "Members were lost, or left and joined as planned, and the run went on. Medians "
                  "over all losses of all runs; beside them the 95th percentile and the longest."),
      TableOpen("recoveries", "recovery-title", columns), rows, TableClose(),
      Note(
          "Noticed after: from a planned fault's strike until the first member knew. Recovered in: "
          "from then until the last worker went on. Nobody trained: both. Planned changes: members "
          "that left or joined without a loss. False: members that were given up though nothing "
          "had "
          "struck them. Without a copy: until every shard had all its copies again. Repeated "
          "pushes "
          "were known by worker and step, and not applied again."),
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
