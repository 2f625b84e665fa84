#include "experiments/cli/chaos_flags.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/exit_code.h"
#include "base/status.h"

namespace lockstep {
namespace {

constexpr char kHelp[] =
    "Runs parameter-server clusters in a simulator, each under a random plan of faults from its "
    "own seed: the\n"
    "real shard, chain, client and membership code on a made-up network with made-up clocks. Each "
    "run is checked\n"
    "against what was promised: applied once, nothing acknowledged lost, one primary, no pull goes "
    "back, the bits\n"
    "of the undisturbed run, no failover for nothing, no standstill. A seed that breaks a promise "
    "is shown with\n"
    "the part of its plan that is needed. A run keeps at most 100000 versions of all its shards.\n";
constexpr char kExamples[] =
    "Examples:\n"
    "  ./lockstep chaos --seeds 1000                       seeds 1 to 1000\n"
    "  ./lockstep chaos --seed 42                          seed 42 again, with its plan\n"
    "  ./lockstep chaos --seeds 200 --mode async --policy chain --json\n"
    "Exit codes: 0 every promise was kept, 1 one was broken, 2 bad usage.\n";
constexpr int64_t kProgressRuns = 50;

}  // namespace

ChaosCommand::ChaosCommand(CLI::App* app) : command_(app->add_subcommand("chaos", kHelp)) {
  command_->footer(kExamples);
  command_->add_option("--seeds", arguments_.seeds, "how many, from 1 on")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command_->add_option("--seed", arguments_.seed, "this one alone");
  command_->add_option("--mode", arguments_.mode,
                       "sync, async, bounded or k_of_n (default: each seed has its own)");
  command_->add_option("--policy", arguments_.policy,
                       "none, snapshot or chain (default: each seed has one of the last two)");
  command_->add_flag("--json", arguments_.json, "print a JSON document");
}

int ChaosCommand::Run() const {
  const bool shows = isatty(STDERR_FILENO) == 1;
  const auto progress = [shows](int64_t runs, int64_t failures) {
    if (!shows || runs % kProgressRuns != 0) return;
    absl::FPrintF(stderr, "%d runs, %d broke a promise\n", runs, failures);
  };
  const absl::StatusOr<ChaosAnswer> answer = RunChaosCommand(arguments_, progress);
  if (!answer.ok()) {
    absl::FPrintF(stderr, "lockstep chaos: %s\n", absl::StrCat(answer.status().message()));
    return ExitCodeFor(answer.status());
  }
  absl::PrintF("%s", answer->text);
  if (std::fflush(stdout) != 0) {
    const absl::Status status = ErrnoStatus(errno, "lockstep chaos: cannot print the answer");
    absl::FPrintF(stderr, "%s\n", absl::StrCat(status.message()));
    return ExitCodeFor(status);
  }
  return answer->exit_code;
}

}  // namespace lockstep
