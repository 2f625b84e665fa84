// main.cc: the command line. Set-up and `test` live in the script ./lockstep, everything else here.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/exit_code.h"
#include "base/member/member.h"
#include "base/member/program.h"
#include "experiments/bench/command.h"
#include "experiments/cli/chaos_flags.h"
#include "experiments/cli/compare.h"
#include "experiments/cli/faults.h"
#include "experiments/cli/schedule_flags.h"

namespace lockstep {
namespace {

constexpr char kCompare[] = "compare";
constexpr char kCompareHelp[] =
    "Trains every variant of a spec with the same worker, seed, data order and optimizer, and "
    "compares them.\n"
    "Without SPEC the quickstart: a small MLP on the bundled digits, 4 workers, under no "
    "synchronisation,\n"
    "parameter servers (synchronous and asynchronous) and all-reduce (naive, ring, tree, and the "
    "servers'\n"
    "exchange as a schedule).\n";
constexpr char kCompareExamples[] =
    "Examples:\n"
    "  ./lockstep compare\n"
    "  ./lockstep compare quickstart --blocks 5 --set workers=3 --set train.global_batch=96\n"
    "  ./lockstep compare --dry-run --set 'workers=[2, 4]'\n"
    "  ./lockstep compare my.textproto --only ring --out results/ring --json\n"
    "Exit codes: 0 success, 1 a promise was broken, 2 bad usage or spec, 3 a member was lost or "
    "timed out,\n"
    "4 the environment lacks something, 5 internal error, 130/143 interrupted.\n";

std::string CommandLine(int argc, char** argv) {
  std::string command = "./lockstep";
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool plain = word.find_first_of(" \t\"'{}[]$*") == std::string::npos;
    absl::StrAppend(&command, " ", plain ? word : absl::StrCat("'", word, "'"));
  }
  return command;
}

void AddCompare(CLI::App* app, CompareArguments* arguments) {
  CLI::App* compare = app->add_subcommand(kCompare, kCompareHelp);
  compare->footer(kCompareExamples);
  compare->add_option("SPEC", arguments->spec, "name of a ready-made spec, or a file");
  compare
      ->add_option(
          "--set", arguments->options.set,
          "path=value in text format, e.g. train.steps=60, variant[ring].all_reduce.channels=2")
      ->allow_extra_args(false);
  compare->add_option("--blocks", arguments->options.blocks, "how often every variant runs");
  compare->add_flag("--quick", arguments->options.quick,
                    "one block, at most 20 steps: is everything in order?");
  compare->add_option("--only", arguments->options.only, "run this variant alone (may be repeated)")
      ->allow_extra_args(false);
  compare->add_option("--out", arguments->out,
                      "folder for the results (default runs/<time>-<name>)");
  compare->add_option("--listen", arguments->listen,
                      "HOST[:PORT] of this machine that coordinator and members listen on (default "
                      "127.0.0.1, free ports)");
  compare
      ->add_option("--nccl-lib", arguments->nccl_library,
                   "NCCL's file, for engine NCCL (default libnccl.so.2, where the loader finds it)")
      ->envname("LOCKSTEP_NCCL_LIB");
  compare
      ->add_option("--cublas-lib", arguments->cublas_library,
                   "cuBLAS's file, for device GPU (default libcublas.so.13, or .12, where the "
                   "loader finds it)")
      ->envname("LOCKSTEP_CUBLAS_LIB");
  compare->add_flag("--dry-run", arguments->dry_run,
                    "print processes, ports, bytes and a range of time; start and write nothing");
  compare->add_flag("--plain", arguments->plain, "plain progress lines, also on a terminal");
  compare->add_flag("--json", arguments->json, "print run.json instead of the table");
}

std::vector<std::string> CommandNames(CLI::App* app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app->get_subcommands({})) names.push_back(command->get_name());
  return names;
}

int Main(int argc, char** argv) {
  CLI::App app("Lockstep: how should data-parallel workers stay in step?", "lockstep");
  app.require_subcommand(1);
  app.set_version_flag("--version", BuildId());
  CompareArguments arguments;
  arguments.command = CommandLine(argc, argv);
  arguments.program_dir = ProgramDir();
  AddCompare(&app, &arguments);
  const FaultsCommand faults(&app);
  const BenchCommand bench(&app);
  const ScheduleCommand schedule(&app);
  const ChaosCommand chaos(&app);
  const std::vector<std::string> names = CommandNames(&app);
  if (argc > 1 && argv[1][0] != '-' &&
      std::find(names.begin(), names.end(), argv[1]) == names.end()) {
    std::fprintf(stderr, "lockstep: unknown command '%s'; there is %s (and `./lockstep test`)\n",
                 argv[1], absl::StrJoin(names, ", ").c_str());
    return kExitUsage;
  }
  if (const std::optional<int> code = ParseFlags(&app, argc, argv)) return *code;
  if (faults.asked()) return faults.Run(arguments.command, arguments.program_dir);
  if (bench.asked()) return bench.Run(arguments.command, arguments.program_dir);
  if (schedule.asked()) return schedule.Run();
  if (chaos.asked()) return chaos.Run();
  return Compare(arguments);
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  return lockstep::RunProgram("lockstep", lockstep::Main, argc, argv);
}
