// command.h: the command `lockstep bench allreduce`: options, run, and what it prints. Exit codes:
// DESIGN section 9; 1 where a result was wrong. Threads: called from main, before any other thread
// exists.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "experiments/bench/options.h"

namespace lockstep {

class BenchCommand {
 public:
  // Adds the command; `app` must outlive this object.
  explicit BenchCommand(CLI::App* app);
  BenchCommand(const BenchCommand&) = delete;
  BenchCommand& operator=(const BenchCommand&) = delete;

  bool asked() const { return app_->parsed(); }
  // `command_line`: as the user typed it, for the record. `program_dir`: allreduce_rank and the
  // engines' shared objects are there.
  int Run(const std::string& command_line, const std::string& program_dir) const;

 private:
  CLI::App* const app_;
  BenchArguments arguments_;
};

}  // namespace lockstep
