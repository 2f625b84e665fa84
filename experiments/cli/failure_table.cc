#include "experiments/cli/failure_table.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <regex>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/clock.h"
#include "experiments/analyse/format.h"
#include "experiments/analyse/run_record.h"
#include "experiments/analyse/terminal_text.h"

namespace lockstep {
namespace {

constexpr char kStopped[] = "stopped";
constexpr char kWentOn[] = "went on";
constexpr char kRebuilt[] = "rebuilt";
constexpr char kHung[] = "hung";

// "rank 5" as links know members: the workers, then those that only sum.
std::string MemberOf(int rank, int workers) {
  return rank < workers ? absl::StrCat("worker ", rank) : absl::StrCat("server ", rank - workers);
}

// The first other member that `speaker`'s message speaks of, before all one that it calls lost;
// empty: none.
std::string FirstNamed(const std::string& speaker, const std::string& text, int workers) {
  for (const char* const pattern :
       {"(?:lost|missing): (rank) ([0-9]+)", "(worker|server|rank) ([0-9]+)|coordinator"}) {
    const std::regex member(pattern);
    for (std::sregex_iterator match(text.begin(), text.end(), member), end; match != end; ++match) {
      int rank = 0;
      const bool is_rank = match->str(1) == "rank" && absl::SimpleAtoi(match->str(2), &rank);
      std::string name = is_rank ? MemberOf(rank, workers) : match->str();
      if (name != speaker) return name;
    }
  }
  return "";
}

struct Sign {
  int64_t time_ns = INT64_MAX;
  std::string speaker;  // "worker 0"
  std::string message;
};

// What the survivors' records say since the strike.
class Story {
 public:
  Story(const FailureCase& failure, const StruckRun& run) : strike_ns_(run.strike_ns) {
    for (const auto* members : {&run.workers, &run.servers}) {
      for (const MemberHistory& member : *members) {
        for (const Record& record : member.records) {
          const bool ended_by_us = record.has_ended() && member.name == failure.Target();
          if (record.time_ns() > strike_ns_ && !ended_by_us) Take(member.name, record);
        }
      }
    }
  }

  bool rebuilt() const { return back_ns_ > 0; }
  // Of the first survivor that knew.
  const Sign& first() const { return first_; }
  // When the last survivor stood in its new group; 0: nothing was rebuilt.
  int64_t back_ns() const { return back_ns_; }

 private:
  void Take(const std::string& speaker, const Record& record) {
    if (record.has_rebuilt() || record.has_recovered()) {
      const bool worker = record.has_rebuilt();
      back_ns_ = std::max(back_ns_, record.time_ns());
      const int64_t broken_ns =
          worker ? record.rebuilt().broken_ns() : record.recovered().broken_ns();
      if (broken_ns > strike_ns_) {  // a replacement's is 0
        TakeSign(
            {broken_ns, speaker, worker ? record.rebuilt().cause() : record.recovered().cause()});
      }
    } else if (record.has_ended() && record.ended().code() != 0) {
      TakeSign({record.time_ns(), speaker, record.ended().message()});
    }
  }
  void TakeSign(Sign sign) {
    if (sign.time_ns < first_.time_ns) first_ = std::move(sign);
  }

  const int64_t strike_ns_;
  Sign first_;
  int64_t back_ns_ = 0;
};

struct Window {
  int64_t begin_ns = 0;
  int64_t end_ns = INT64_MAX;
  int64_t after_step = 0;
};

struct Rate {
  double steps_per_s = 0;
  double samples_per_s = 0;
};

// Of the steps that begin and end inside.
std::optional<Rate> RateIn(const std::vector<Record>& records, const Window& window) {
  int64_t first_ns = INT64_MAX;
  int64_t last_ns = 0;
  int steps = 0;
  int64_t samples = 0;
  for (const Record& record : records) {
    const StepDone& step = record.step();
    const bool inside = record.has_step() && step.step() > window.after_step &&
                        step.start_ns() >= window.begin_ns && EndNs(step) <= window.end_ns;
    if (!inside) continue;
    first_ns = std::min(first_ns, step.start_ns());
    last_ns = std::max(last_ns, EndNs(step));
    ++steps;
    samples += step.samples();
  }
  if (steps < kRateStepsMin || last_ns <= first_ns) return std::nullopt;
  const double seconds = static_cast<double>(last_ns - first_ns) / kNsPerSecond;
  return Rate{steps / seconds, static_cast<double>(samples) / seconds};
}

// The end of the first survivor that ends: from then on the others have more of the machine.
int64_t FirstEndNs(const StruckRun& run, const std::string& struck) {
  int64_t first_ns = INT64_MAX;
  for (const MemberHistory& worker : run.workers) {
    int64_t end_ns = 0;
    for (const Record& record : worker.records) {
      if (record.has_step()) end_ns = EndNs(record.step());
    }
    if (worker.name != struck) first_ns = std::min(first_ns, end_ns);
  }
  return first_ns;
}

struct Rates {
  std::optional<double> samples_per_s;
  std::optional<double> others_steps_per_s;
};

Rates RatesIn(const StruckRun& run, const std::string& struck, const Window& window) {
  double samples = 0;
  double steps = 0;
  int others = 0;
  for (const MemberHistory& worker : run.workers) {
    const std::optional<Rate> rate = RateIn(worker.records, window);
    if (worker.name != struck && !rate) return {};
    if (!rate) continue;
    samples += rate->samples_per_s;
    if (worker.name == struck) continue;
    steps += rate->steps_per_s;
    ++others;
  }
  if (others == 0) return {samples, std::nullopt};
  return {samples, steps / others};
}

void AddRates(const FailureCase& failure, const StruckRun& run, const Story& story,
              FailureRow* row) {
  const std::string& struck = row->target();
  const Rates before =
      RatesIn(run, struck,
              {.end_ns = run.strike_ns,
               .after_step = WarmupSteps(failure.config.experiment().train().steps())});
  if (before.samples_per_s) row->set_samples_per_s_before(*before.samples_per_s);
  if (before.others_steps_per_s) row->set_others_steps_per_s_before(*before.others_steps_per_s);
  if (row->outcome() != kRebuilt && row->outcome() != kWentOn) return;
  const Rates after = RatesIn(
      run, struck,
      {.begin_ns = std::max(run.strike_ns, story.back_ns()), .end_ns = FirstEndNs(run, struck)});
  if (after.samples_per_s) row->set_samples_per_s_after(*after.samples_per_s);
  if (after.others_steps_per_s) row->set_others_steps_per_s_after(*after.others_steps_per_s);
}

std::string OutcomeOf(const StruckRun& run, const Story& story) {
  if (run.hung) return kHung;
  if (run.exit_code != 0) return kStopped;
  return story.rebuilt() ? kRebuilt : kWentOn;
}

double SinceMs(int64_t time_ns, int64_t start_ns) {
  return static_cast<double>(time_ns - start_ns) / kNsPerMs;
}

// "worker 2" -> "w2", "coordinator" -> "c"; nobody: "-".
std::string ShortName(const std::string& member) {
  if (member.empty()) return "-";
  const std::vector<std::string> words = absl::StrSplit(member, ' ');
  return absl::StrCat(words[0].substr(0, 1), words.size() > 1 ? words[1] : "");
}

constexpr size_t kColumns = 9;
using Cells = std::array<std::string, kColumns>;

std::string Number(bool there, double value) { return there ? Significant(value, 3) : "-"; }

Cells CellsOf(const FailureRow& row) {
  const bool both = row.has_others_steps_per_s_before() && row.has_others_steps_per_s_after();
  return {row.variant(),
          absl::StrCat(row.kind(), " ", ShortName(row.target())),
          row.outcome(),
          absl::StrCat(row.exit_code()),
          ShortName(row.named()),
          Number(row.has_detected_ms(), row.detected_ms()),
          Number(row.has_recovered_ms(), row.recovered_ms()),
          absl::StrCat(Number(row.has_samples_per_s_before(), row.samples_per_s_before()), "/",
                       Number(row.has_samples_per_s_after(), row.samples_per_s_after())),
          both ? Percent(row.others_steps_per_s_after() / row.others_steps_per_s_before()) : "-"};
}

}  // namespace

FailureRow JudgeFailure(const FailureCase& failure, const StruckRun& run) {
  const Story story(failure, run);
  FailureRow row;
  row.set_variant(failure.id);
  row.set_label(LabelOf(failure.config.variant(), failure.config.servers()));
  row.set_role(failure.role);
  row.set_kind(Fault::Kind_Name(failure.kind));
  row.set_target(failure.Target());
  row.set_step(static_cast<double>(failure.step));
  row.set_outcome(OutcomeOf(run, story));
  row.set_exit_code(run.exit_code);
  row.set_message(story.first().message);
  row.set_named(
      FirstNamed(story.first().speaker, story.first().message, failure.config.world_size()));
  // The command's own word, where it is not the one that was struck.
  const bool summed_up = run.file && run.file->failures_size() > 0;
  if (row.outcome() == kStopped && failure.role != kCoordinatorRole && summed_up) {
    row.set_named(run.file->failures(0).member());
    row.set_message(run.file->failures(0).message());
  }
  if (story.first().time_ns < INT64_MAX) {
    row.set_detected_ms(SinceMs(story.first().time_ns, run.strike_ns));
  }
  if (row.outcome() == kRebuilt) row.set_recovered_ms(SinceMs(story.back_ns(), run.strike_ns));
  AddRates(failure, run, story, &row);
  return row;
}

bool BreaksPromise(const FailureRow& row) {
  // A coordinator that was struck sums nothing up: what its members say first is their own.
  const bool summed_up = row.outcome() == kStopped && row.role() != kCoordinatorRole;
  return row.outcome() == kHung || (summed_up && row.named() != row.target());
}

std::string FailureTable(const FailureFile& file) {
  std::vector<Cells> rows = {
      {"variant", "struck", "outcome", "exit", "named", "known", "back", "samples/s", "others'"},
      {"", "", "", "", "", "ms", "ms", "before/after", "rate"}};
  for (const FailureRow& row : file.rows()) rows.push_back(CellsOf(row));
  std::array<size_t, kColumns> width{};
  for (const Cells& row : rows) {
    for (size_t i = 0; i < kColumns; ++i) width[i] = std::max(width[i], row[i].size());
  }
  size_t others = 0;
  for (size_t i = 1; i < kColumns; ++i) others += width[i] + 1;
  width[0] = std::min(width[0], kTerminalWidth - std::min(kTerminalWidth - 1, others));
  std::string table;
  for (Cells& row : rows) {
    row[0] = Clip(Ascii(row[0]), width[0]);
    for (size_t i = 0; i < kColumns; ++i) {
      const std::string pad(width[i] - row[i].size(), ' ');
      const bool right = i == 3 || i >= 5;
      absl::StrAppend(&table, i == 0 ? "" : " ", right ? pad : "", row[i], right ? "" : pad);
    }
    table.erase(table.find_last_not_of(' ') + 1);
    table += '\n';
  }
  return absl::StrCat(
      table, "\n",
      Wrap("c = coordinator, s1 = server 1, w2 = worker 2; KILL is SIGKILL, FREEZE is SIGSTOP "
           "until the run is over. Times begin with the strike: known, until the first survivor "
           "knew; back, until all survivors stood in their new group. Others' rate: steps/s of the "
           "workers that were not struck, after against before. A killed coordinator's members "
           "are ended by the kernel, so they may name nobody.",
           "  "));
}

}  // namespace lockstep
