#include "experiments/cli/schedule_flags.h"

#include <cerrno>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/exit_code.h"
#include "base/status.h"

namespace lockstep {
namespace {

constexpr char kExamples[] =
    "Examples:\n"
    "  ./lockstep schedule show ring --ranks 3                  what each rank holds after each "
    "round\n"
    "  ./lockstep schedule show ring --ranks 3 --text > my.txt  a start for a schedule of your "
    "own\n"
    "  ./lockstep schedule verify my.txt                        right, or its first wrong move\n"
    "  ./lockstep schedule cost --ranks 8 --gbps 1              which way wins at which size\n"
    "Exit codes: 0 right, 1 the schedule is wrong, 2 bad usage or a text that is no schedule.\n";
constexpr char kShowHelp[] =
    "Prints how many inputs are summed in each rank's chunks after each round, the additions, "
    "messages and bytes";
constexpr char kVerifyHelp[] =
    "Runs a schedule on an abstract machine and says what is wrong with it: counted twice, wrong "
    "chunk, deadlock, ...";
constexpr char kCostHelp[] =
    "Models the time of every all-reduce on a network of your choice, by simulation and by formula";

}  // namespace

ScheduleCommand::ScheduleCommand(CLI::App* app)
    : command_(app->add_subcommand("schedule", "Collectives as data: show, verify, cost")),
      show_(command_->add_subcommand("show", kShowHelp)),
      verify_(command_->add_subcommand("verify", kVerifyHelp)),
      cost_(command_->add_subcommand("cost", kCostHelp)) {
  command_->require_subcommand(1);
  command_->footer(kExamples);
  for (CLI::App* each : {show_, verify_, cost_}) {
    each->footer(kExamples);
    AddSource(each, each == cost_);
  }
  show_
      ->add_option("--elements", show_options_.elements,
                   "of the data: also show how they are cut into chunks")
      ->check(CLI::PositiveNumber);
  show_->add_flag("--text", show_options_.as_text, "print the text form, which verify reads");
  cost_->add_option("--sizes", costs_.sizes, "FROM:TO:FACTOR or a list, of one rank's bytes")
      ->capture_default_str();
  cost_->add_option("--latency-us", costs_.latency_us, "of a message, its port is free meanwhile")
      ->capture_default_str();
  cost_->add_option("--overhead-us", costs_.overhead_us, "of a message, its port is busy")
      ->capture_default_str();
  cost_->add_option("--gbps", costs_.gbps, "10^9 bits a second of each link in each direction")
      ->capture_default_str();
  cost_->add_option("--gamma-ns", costs_.gamma_ns, "of adding one byte")->capture_default_str();
  cost_->add_flag("--json", costs_.json, "print JSON (lockstep.cost/1) instead of tables");
}

void ScheduleCommand::AddSource(CLI::App* command, bool is_cost) {
  if (!is_cost) {
    command
        ->add_option("ALGORITHM|FILE", arguments_.what,
                     absl::StrCat("one of ", AlgorithmList(), "; or a file in the text form"))
        ->required();
    command->add_option("--collective", arguments_.collective,
                        "all_reduce (default), reduce, broadcast, reduce_scatter, all_gather or "
                        "barrier");
    command->add_option("--root", arguments_.root, "rank of reduce and broadcast (default 0)");
  }
  command->add_option("--ranks", arguments_.ranks,
                      is_cost ? "that have input" : "servers included");
  command->add_option("--channels", arguments_.channels, "parallel connections (default 1)");
  command->add_option("--group-size", arguments_.group_size, "of hierarchical");
  command->add_option("--servers", arguments_.servers, "of ps_exchange");
  command->add_option("--placement", arguments_.placement,
                      "of the servers: spare (default), colocated or split");
}

absl::StatusOr<ScheduleAnswer> ScheduleCommand::Answer() const {
  if (show_->parsed()) return ShowSchedule(arguments_, show_options_);
  if (verify_->parsed()) return VerifySchedule(arguments_);
  ASSIGN_OR_RETURN(std::string text, RenderCosts(arguments_, costs_));
  return ScheduleAnswer{std::move(text), kExitOk};
}

int ScheduleCommand::Run() const {
  const absl::StatusOr<ScheduleAnswer> answer = Answer();
  if (!answer.ok()) {
    absl::FPrintF(stderr, "lockstep schedule: %s\n", absl::StrCat(answer.status().message()));
    return ExitCodeFor(answer.status());
  }
  absl::PrintF("%s", answer->text);
  if (std::fflush(stdout) != 0) {
    const absl::Status status = ErrnoStatus(errno, "lockstep schedule: cannot print the answer");
    absl::FPrintF(stderr, "%s\n", absl::StrCat(status.message()));
    return ExitCodeFor(status);
  }
  return answer->exit_code;
}

}  // namespace lockstep
