#include "experiments/analyse/terminal_next.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "experiments/analyse/terminal_text.h"

namespace lockstep {
namespace {

std::string ShellQuote(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("_./-=,:", c);
  });
  return plain ? word : absl::StrCat("'", absl::StrJoin(absl::StrSplit(word, '\''), "'\\''"), "'");
}

// Broken with a backslash where needed, so that it can be pasted.
std::string Command(const std::string& spec, const std::vector<std::string>& arguments) {
  std::string command = absl::StrCat("./lockstep compare ", PathText(ShellQuote(spec)));
  std::string line = absl::StrCat("  ", command);
  std::string text;
  for (const std::string& argument : arguments) {
    const std::string word = Ascii(argument);
    constexpr size_t kJoint = 2;  // " \"
    if (line.size() + 1 + word.size() + kJoint > kTerminalWidth) {
      absl::StrAppend(&text, line, " \\\n");
      line = absl::StrCat("     ", word);
    } else {
      absl::StrAppend(&line, " ", word);
    }
  }
  return absl::StrCat(text, line, "\n");
}

std::string PathOf(const std::string& assignment) {
  return assignment.substr(0, assignment.find('='));
}

// `set` of the last run without what the next command sets itself; a later one of the same field
// would win, and two are hard to read.
std::vector<std::string> Kept(const std::vector<std::string>& set,
                              const std::vector<std::string>& without) {
  std::vector<std::string> arguments;
  for (const std::string& assignment : set) {
    if (std::find(without.begin(), without.end(), PathOf(assignment)) != without.end()) continue;
    arguments.push_back(absl::StrCat("--set ", ShellQuote(Ascii(assignment))));
  }
  return arguments;
}

// The user's own settings first: the suggestion is what follows them.
std::string Suggestion(const TerminalOptions& options, const std::vector<std::string>& without,
                       const std::vector<std::string>& added) {
  std::vector<std::string> arguments = Kept(options.set, without);
  arguments.insert(arguments.end(), added.begin(), added.end());
  return Command(options.spec.empty() ? "quickstart" : options.spec, arguments);
}

std::string MoreSteps(const RunFile& run) {
  constexpr int64_t kStepsMax = 10'000'000;  // a spec with more is refused
  const int64_t own = run.experiment().steps();
  return absl::StrCat("--set train.steps=",
                      std::max({int64_t{1}, own, std::min(2 * own, kStepsMax)}));
}

// One variant with other buckets; all variants where no name fits into a line.
std::string OtherBuckets(const RunFile& run, const TerminalOptions& options) {
  constexpr size_t kOnlyChars = 30;  // so that the command stays on one line
  const VariantResult* only = nullptr;
  bool has_ranked = false;
  for (const VariantResult& variant : run.runs()) {
    has_ranked = has_ranked || variant.ranked();
    if (variant.ranked() && variant.variant().size() <= kOnlyChars) only = &variant;
  }
  if (!has_ranked) return "";  // nothing is sent
  const double cap_mb = run.experiment().bucket_cap_mb();
  const bool small = cap_mb > 0 && cap_mb <= 0.1;
  const std::string buckets = absl::StrCat("--set bucket_cap_mb=", small ? "25" : "0.1");
  std::vector<std::string> without = {"bucket_cap_mb"};
  if (only == nullptr) return Suggestion(options, without, {buckets});
  if (!absl::StartsWith(only->mode(), "ps_")) {
    // A spec that gives a server's limit and has no server is refused.
    without.insert(without.end(), {"limits.window_chunks", "limits.staged_bytes_max"});
  }
  return Suggestion(options, without,
                    {absl::StrCat("--only ", ShellQuote(Ascii(only->variant()))), buckets});
}

}  // namespace

std::string TryNext(const RunFile& run, const TerminalOptions& options) {
  constexpr int kManyBlocks = 5;  // speed claims stop being preliminary
  const ExperimentInfo& experiment = run.experiment();
  const int blocks = experiment.blocks() < kManyBlocks ? kManyBlocks : 2 * experiment.blocks();
  // Half the workers divide any batch that all of them divided.
  const bool halves = experiment.workers() > 2 && experiment.workers() % 2 == 0;
  return absl::StrCat(
      "Try next:\n", Suggestion(options, {"blocks"}, {absl::StrCat("--blocks ", blocks)}),
      halves ? Suggestion(options, {"workers"},
                          {absl::StrCat("--set workers=", experiment.workers() / 2)})
             : Suggestion(options, {"train.steps"}, {MoreSteps(run)}),
      OtherBuckets(run, options));
}

}  // namespace lockstep
