// Do the replicas stay the same: how far apart, how synchronous, from which start.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "experiments/analyse/run_record.h"
#include "experiments/report/findings.h"
#include "experiments/report/html.h"
#include "experiments/report/number.h"
#include "experiments/report/sections.h"

namespace lockstep {
namespace {

// A distance is known where it was measured, and where all hashes are equal.
bool HasDistance(const ProbeResult& probe) {
  if (probe.has_max_rel()) return true;
  return probe.hash_size() > 1 &&
         std::all_of(probe.hash().begin(), probe.hash().end(),
                     [&](const std::string& hash) { return hash == probe.hash(0); });
}

std::string DistanceText(double share) {
  return share == 0 ? "exactly\u00a00" : FormatShare(share);
}

std::string StateHtml(const ReplicaResult& replicas) {
  if (replicas.state() == "identical") return "<span class=\"ok\">✓ bit-identical</span>";
  if (replicas.state() == "diverged") return "<span class=\"bad\">✗ differ</span>";
  return "not compared";
}

std::string LastDistanceText(const ReplicaResult& replicas) {
  return replicas.max_rel().has_number_value() ? DistanceText(replicas.max_rel().number_value())
                                               : kNotMeasured;
}

// A reason is a sentence, too long for a cell.
std::string DistanceNotes(const PageView& view) {
  std::string out;
  for (const PageRow& row : view.rows) {
    const std::string& reason = row.result->replicas().max_rel_reason();
    if (reason.empty()) continue;
    absl::StrAppend(&out, Note(absl::StrCat(row.label, ": distance not measured, ", reason, ".")));
  }
  return out;
}

std::string RepeatsHtml(const VariantResult& result, int blocks) {
  if (blocks < 2 || result.final_hash().empty()) return kNotMeasured;
  if (result.repeated_hash_equal()) return "<span class=\"ok\">✓ same bits</span>";
  // Where nobody waits, the order of arrival decides: no promise is broken.
  return IsSynchronous(result.mode()) ? "<span class=\"bad\">✗ other bits</span>" : "other bits";
}

// What the probe before the first step says about the start values.
std::string StartNote(const PageView& view) {
  std::vector<std::string> equal;
  std::string out;
  for (const PageRow& row : view.rows) {
    const ReplicaResult& replicas = row.result->replicas();
    if (replicas.probes().empty() || replicas.probes(0).step() != 0) continue;
    const ProbeResult& start = replicas.probes(0);
    if (!HasDistance(start)) continue;
    if (start.max_rel() == 0) {
      equal.push_back(row.result->id());
      continue;
    }
    absl::StrAppend(&out,
                    Note(absl::StrCat(row.label, " starts ", FormatShare(start.max_rel()),
                                      " apart: its workers’ start values were not broadcast. "
                                      "Synchronisation adds the same change to every copy, so it "
                                      "keeps such a distance; after the last probe it is ",
                                      LastDistanceText(replicas), ".")));
  }
  if (equal.size() == view.rows.size() && !equal.empty()) {
    return Note("Start values were broadcast: before the first step every distance is exactly 0.");
  }
  if (equal.empty()) return out;
  return absl::StrCat(Note(absl::StrCat("Before the first step the distance is exactly 0 in ",
                                        absl::StrJoin(equal, ", "), ".")),
                      out);
}

std::string DivergenceText(const PageView& view) {
  std::vector<std::string> parts;
  for (const PageRow& row : view.largest) {
    const ReplicaResult& replicas = row.result->replicas();
    if (replicas.probes().empty()) continue;
    parts.push_back(absl::StrCat(
        row.label, replicas.state() == "identical"
                       ? " bit-identical at every probe"
                       : absl::StrCat(" ", LastDistanceText(replicas), " at the last probe")));
  }
  return absl::StrCat(
      "Largest relative distance between two replicas, by step: ", absl::StrJoin(parts, "; "), ".");
}

std::string DivergencePicture(const PageView& view) {
  const std::vector<Column> columns = {{"Synchronisation"}, {"Distance at each probe", "wrap"}};
  std::string rows;
  for (const PageRow& row : view.largest) {
    std::vector<std::string> values;
    for (const ProbeResult& probe : row.result->replicas().probes()) {
      if (!HasDistance(probe)) continue;
      values.push_back(absl::StrCat("<span>step ", FormatCount(probe.step()), ": ",
                                    DistanceText(probe.max_rel()), "</span>"));
    }
    if (!values.empty()) absl::StrAppend(&rows, Row(row, columns, {absl::StrJoin(values, " · ")}));
  }
  if (rows.empty()) return "";
  return PictureHtml(
      {.id = "divergence",
       .description = DivergenceText(view),
       .numbers_html = absl::StrCat(TableOpen("divergence-numbers", "divergence-title", columns),
                                    rows, TableClose())});
}

std::string VersionsText(const SynchronyResult& synchrony, double count) {
  return synchrony.model_versions() > 0 ? FormatCount(count) : kNotMeasured;
}

}  // namespace

std::string ReplicasHtml(const PageView& view) {
  if (view.rows.empty()) return "";
  const std::vector<Column> columns = {{"Synchronisation"},
                                       {"Replicas"},
                                       {"First differing step", "num"},
                                       {"Distance", "num"},
                                       {"Model versions", "num"},
                                       {"Largest step gap", "num"},
                                       {"Repeated runs", "num"}};
  std::string out = absl::StrCat(
      SectionOpen("divergence", DivergenceFinding(view),
                  absl::StrCat("Each worker’s parameters are hashed at every probe; equal hashes "
                               "mean equal bits. Distance: the largest difference between two "
                               "workers, as a share of the largest parameter.",
                               SizeText(view))),
      DivergencePicture(view), TableOpen("replicas", "divergence-title", columns));
  for (const PageRow& row : view.rows) {
    const VariantResult& result = *row.result;
    const ReplicaResult& replicas = result.replicas();
    const std::string first = replicas.has_first_diff_step()
                                  ? FormatCount(replicas.first_diff_step())
                                  : (replicas.state() == "identical" ? "none" : kNotMeasured);
    const SynchronyResult& synchrony = result.synchrony();
    absl::StrAppend(&out, Row(row, columns,
                              {StateHtml(replicas), first, LastDistanceText(replicas),
                               VersionsText(synchrony, synchrony.model_versions()),
                               VersionsText(synchrony, synchrony.step_gap_max()),
                               RepeatsHtml(result, view.run->experiment().blocks())}));
  }
  const bool counted = std::any_of(view.rows.begin(), view.rows.end(), [](const PageRow& row) {
    return row.result->synchrony().model_versions() > 0;
  });
  return absl::StrCat(out, TableClose(), DistanceNotes(view), StartNote(view),
                      Note(!counted ? ""
                                    : "Model versions: states of the shared parameters in one run. "
                                      "Step gap: the most steps "
                                      "by which one worker was ever ahead of another."),
                      "</section>\n");
}

}  // namespace lockstep
