// schedule_flags.h: the flags of `lockstep schedule show | verify | cost`, and doing what they ask.
// For main files only: CLI11's header is large. Threads: main.
#pragma once

#include <CLI/CLI.hpp>

#include "experiments/cli/schedule.h"
#include "experiments/cli/schedule_cost.h"

namespace lockstep {

class ScheduleCommand {
 public:
  // Adds the command to `app`, which must outlive the object.
  explicit ScheduleCommand(CLI::App* app);
  ScheduleCommand(const ScheduleCommand&) = delete;
  ScheduleCommand& operator=(const ScheduleCommand&) = delete;

  bool asked() const { return command_->parsed(); }
  // Prints the answer. Returns the exit code: 0, 1 for a schedule that is wrong, 2 for bad usage
  // and for a text that is no schedule.
  int Run() const;

 private:
  void AddSource(CLI::App* command, bool is_cost);
  absl::StatusOr<ScheduleAnswer> Answer() const;

  CLI::App* command_;
  CLI::App* show_;
  CLI::App* verify_;
  CLI::App* cost_;
  ScheduleArguments arguments_;
  ShowOptions show_options_;
  CostArguments costs_;
};

}  // namespace lockstep
