#include "experiments/cli/schedule.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "allreduce/schedule/load.h"
#include "allreduce/schedule/order.h"
#include "allreduce/schedule/simulate.h"
#include "allreduce/schedule/verify.h"
#include "base/exit_code.h"
#include "base/status.h"
#include "experiments/cli/schedule_rounds.h"

namespace lockstep {
namespace {

constexpr size_t kOrderLinesMax = 16;

std::string Plural(int64_t count, const std::string& noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

// "file:12: rank 0 lane 0 move 3" and the move; without a file no line.
std::string Where(const FoundSchedule& found, const Finding& finding) {
  const auto rank = static_cast<size_t>(finding.rank);
  const auto lane = static_cast<size_t>(finding.lane);
  const auto move = static_cast<size_t>(finding.move);
  const bool known = finding.rank != kNone && finding.lane != kNone && finding.move != kNone;
  std::string where = found.name;
  if (known && !found.file.empty()) {
    absl::StrAppend(&where, ":", found.text.lines[rank][lane][move]);
  }
  absl::StrAppend(&where, ":");
  if (finding.rank != kNone) absl::StrAppend(&where, " rank ", finding.rank);
  if (!known) return absl::StrCat(where, " ", NameOf(finding.fault), ": ", finding.what, "\n");
  absl::StrAppend(&where, " lane ", finding.lane, " move ", finding.move, ": ",
                  NameOf(finding.fault), ": ", finding.what, "\n  ",
                  MoveText(found.text.schedule, found.text.schedule.ranks[rank][lane].moves[move]),
                  "\n");
  return where;
}

std::string Wrong(const FoundSchedule& found, const VerifyReport& report) {
  const size_t more = report.findings.size() - 1;
  std::string text = absl::StrCat("wrong: ", Where(found, report.findings.front()));
  if (more > 0) {
    absl::StrAppend(&text, "and ", more, " more; the first may explain the rest\n");
  }
  return text;
}

std::string RankRanges(const std::vector<int32_t>& ranks) {
  std::vector<std::string> ranges;
  for (size_t i = 0; i < ranks.size();) {
    size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    ranges.push_back(end - i == 1 ? absl::StrCat(ranks[i])
                                  : absl::StrCat(ranks[i], "..", ranks[end - 1]));
    i = end;
  }
  return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ", absl::StrJoin(ranges, ", "));
}

// Ranks with the same load share a line.
std::string Loads(const Schedule& schedule) {
  using Key = std::tuple<int64_t, std::string, int64_t, std::string>;
  std::map<Key, std::vector<int32_t>> groups;
  const auto share = [](double of_s) { return absl::StrFormat("%.4g S", of_s); };
  for (int32_t rank = 0; rank < schedule.world_size; ++rank) {
    const RankLoad load = LoadOf({schedule, schedule.ranks[static_cast<size_t>(rank)]});
    groups[{load.sent_messages, share(load.sent), load.received_messages, share(load.received)}]
        .push_back(rank);
  }
  std::vector<std::pair<Key, std::vector<int32_t>>> lines(groups.begin(), groups.end());
  std::sort(lines.begin(), lines.end(),
            [](const auto& a, const auto& b) { return a.second < b.second; });
  std::string text = "Load (S: the bytes of the data)\n";
  for (const auto& [key, ranks] : lines) {
    const auto& [sent_messages, sent, received_messages, received] = key;
    absl::StrAppend(&text, "  ", RankRanges(ranks), ranks.size() == 1 ? " sends " : " send ",
                    Plural(sent_messages, "message"), ", ", sent,
                    ranks.size() == 1 ? ", receives " : ", receive ", received_messages, ", ",
                    received, "\n");
  }
  return text;
}

std::string Order(const Schedule& schedule, int64_t elements) {
  const bool by_chunk = elements == 0;
  const std::vector<std::string> runs =
      absl::StrSplit(AdditionOrder(schedule, by_chunk ? schedule.chunks : elements), "; ");
  std::string text =
      absl::StrCat("Additions, gr: the input of rank r, by ", by_chunk ? "chunk" : "element", "\n");
  for (size_t i = 0; i < std::min(runs.size(), kOrderLinesMax); ++i) {
    absl::StrAppend(&text, "  ", runs[i], "\n");
  }
  if (runs.size() > kOrderLinesMax) {
    absl::StrAppend(&text, "  (", runs.size() - kOrderLinesMax, " more are left out)\n");
  }
  return text;
}

int64_t CountMoves(const Schedule& schedule) {
  size_t moves = 0;
  for (const auto& lanes : schedule.ranks) {
    for (const Lane& lane : lanes) moves += lane.moves.size();
  }
  return static_cast<int64_t>(moves);
}

}  // namespace

absl::StatusOr<ScheduleAnswer> ShowSchedule(const ScheduleArguments& arguments,
                                            const ShowOptions& options) {
  ASSIGN_OR_RETURN(const FoundSchedule found, FindSchedule(arguments));
  const Schedule& schedule = found.text.schedule;
  if (options.as_text) {
    return ScheduleAnswer{WriteSchedule(schedule, found.text.goal, found.text.root)};
  }
  ASSIGN_OR_RETURN(const Goal goal, GoalOf(found.text.goal, schedule, found.text.root));
  const VerifyReport report = Verify(schedule, goal);
  if (report.Has(Fault::kMalformed)) {
    return ScheduleAnswer{Wrong(found, report), kExitPromiseBroken};
  }
  std::string text =
      absl::StrCat(found.Title(), "\n\n", RenderRounds(schedule, goal, options.elements), "\n");
  if (!report.findings.empty()) {
    return ScheduleAnswer{absl::StrCat(text, Wrong(found, report)), kExitPromiseBroken};
  }
  ASSIGN_OR_RETURN(const Simulation simulation, Simulate(schedule, SimulationOptions{}));
  if (found.text.goal == Collective::kAllReduce) text += Order(schedule, options.elements);
  absl::StrAppend(&text, Loads(schedule), "Longest chain: ", Plural(simulation.chain, "message"),
                  ", each sent after the one before came\n");
  return ScheduleAnswer{text};
}

absl::StatusOr<ScheduleAnswer> VerifySchedule(const ScheduleArguments& arguments) {
  ASSIGN_OR_RETURN(const FoundSchedule found, FindSchedule(arguments));
  const Schedule& schedule = found.text.schedule;
  ASSIGN_OR_RETURN(const Goal goal, GoalOf(found.text.goal, schedule, found.text.root));
  const VerifyReport report = Verify(schedule, goal);
  if (!report.findings.empty()) return ScheduleAnswer{Wrong(found, report), kExitPromiseBroken};
  ASSIGN_OR_RETURN(const Simulation simulation, Simulate(schedule, SimulationOptions{}));
  return ScheduleAnswer{absl::StrCat(
      "right: ", found.Title(), ": ", Plural(CountMoves(schedule), "move"), ", ",
      Plural(simulation.messages, "message"), ", longest chain ", simulation.chain, "\n")};
}

}  // namespace lockstep
