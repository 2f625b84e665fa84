#include "experiments/cli/chaos.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/exit_code.h"
#include "base/status.h"
#include "experiments/simulate/audit.h"
#include "experiments/simulate/chaos.h"

namespace lockstep {
namespace {

constexpr int64_t kFailuresMax = 5;  // each is shrunk, which takes up to 200 runs

absl::StatusOr<ChaosOptions> OptionsFrom(const ChaosArguments& arguments) {
  ChaosOptions options;
  if (!arguments.mode.empty()) {
    Ps::Mode mode = Ps::SYNC;
    if (!Ps::Mode_Parse(absl::AsciiStrToUpper(arguments.mode), &mode)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--mode ", arguments.mode, ": expected sync, async, bounded or k_of_n"));
    }
    options.mode = mode;
  }
  if (!arguments.policy.empty()) {
    Ps::Policy policy = Ps::NONE;
    if (!Ps::Policy_Parse(absl::AsciiStrToUpper(arguments.policy), &policy)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--policy ", arguments.policy, ": expected none, snapshot or chain"));
    }
    options.policy = policy;
  }
  if (arguments.seeds < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--seeds ", arguments.seeds, ": expected 1 or more"));
  }
  return options;
}

std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (static_cast<unsigned char>(c) < ' ') {
      absl::StrAppendFormat(&quoted, "\\u%04x", static_cast<unsigned>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

std::string List(const std::vector<std::string>& texts) {
  return absl::StrCat("[",
                      absl::StrJoin(texts, ", ",
                                    [](std::string* out, const std::string& text) {
                                      absl::StrAppend(out, Quoted(text));
                                    }),
                      "]");
}

std::vector<std::string> Lines(const Plan& plan) {
  std::vector<std::string> lines;
  for (const Disturbance& each : plan) lines.push_back(each.ToString());
  return lines;
}

std::string Json(const ChaosReport& report) {
  const auto failure = [](std::string* out, const ChaosFailure& each) {
    absl::StrAppend(out, "{\"seed\": ", each.seed, ", \"run\": ", Quoted(each.what),
                    ", \"broken\": ", List(each.broken), ", \"plan\": ", List(Lines(each.plan)),
                    ", \"shrunk\": ", List(Lines(each.shrunk)), "}");
  };
  return absl::StrCat("{\"schema\": \"lockstep.chaos/1\", \"runs\": ", report.runs,
                      ", \"completed\": ", report.completed,
                      ", \"undisturbed\": ", report.undisturbed, ", \"epochs\": ", report.epochs,
                      ", \"events\": ", report.events,
                      absl::StrFormat(", \"virtual_s\": %.3f", report.virtual_s),
                      ", \"failures\": [", absl::StrJoin(report.failures, ", ", failure), "]}\n");
}

std::string Indented(const std::vector<std::string>& lines) {
  return absl::StrCat("    ", absl::StrJoin(lines, "\n    "), "\n");
}

std::string ReportText(const ChaosReport& report, const ChaosArguments& arguments) {
  std::string text;
  for (const ChaosFailure& failure : report.failures) {
    absl::StrAppend(
        &text, "seed ", failure.seed, " broke a promise: ", failure.what, "\n",
        Indented(failure.broken), "  what is needed of its plan of ", failure.plan.size(), ":\n",
        failure.shrunk.empty() ? "    nothing: the undisturbed run does it\n"
                               : Indented(Lines(failure.shrunk)),
        "  again: lockstep chaos --seed ", failure.seed,
        arguments.mode.empty() ? "" : absl::StrCat(" --mode ", arguments.mode),
        arguments.policy.empty() ? "" : absl::StrCat(" --policy ", arguments.policy), "\n");
  }
  absl::StrAppendFormat(
      &text,
      "%d runs, %.0f s of virtual time, %d groups: %d runs completed, %d stopped and said why, "
      "%d broke a promise\n",
      report.runs, report.virtual_s, report.epochs, report.completed,
      report.runs - report.completed, report.failures.size());
  if (static_cast<int64_t>(report.failures.size()) >= kFailuresMax) {
    absl::StrAppend(&text, "ended early, after ", kFailuresMax, " failures\n");
  }
  return text;
}

// What the seed stands for, and how its run went.
std::string ReplayText(const ChaosCase& drawn) {
  const ClusterResult result = RunCluster(drawn.cluster, drawn.plan);
  std::string text =
      absl::StrCat("seed ", drawn.seed, ": ", drawn.ToString(), "\n", Indented(Lines(drawn.plan)));
  for (const std::string& line : result.lines) absl::StrAppend(&text, "  | ", line, "\n");
  absl::StrAppendFormat(&text, "  %s after %.0f ms of virtual time, %d groups, loss %.4g\n",
                        result.outcome.ok() ? "complete" : absl::StrCat(result.outcome.message()),
                        result.elapsed_ms, result.epochs, result.loss);
  return text;
}

}  // namespace

absl::StatusOr<ChaosAnswer> RunChaosCommand(
    const ChaosArguments& arguments,
    const std::function<void(int64_t runs, int64_t failures)>& progress) {
  ASSIGN_OR_RETURN(const ChaosOptions options, OptionsFrom(arguments));
  const bool replays = arguments.seed.has_value();
  const ChaosReport report =
      RunChaos(options, arguments.seed.value_or(1), replays ? 1 : arguments.seeds, kFailuresMax,
               [&progress](const ChaosReport& now) {
                 if (progress) progress(now.runs, static_cast<int64_t>(now.failures.size()));
               });
  ChaosAnswer answer;
  answer.exit_code = report.failures.empty() ? kExitOk : kExitPromiseBroken;
  if (arguments.json) {
    answer.text = Json(report);
    return answer;
  }
  if (replays) answer.text = ReplayText(DrawCase(options, *arguments.seed));
  answer.text += ReportText(report, arguments);
  return answer;
}

}  // namespace lockstep
