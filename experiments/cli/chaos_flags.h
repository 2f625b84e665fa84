// chaos_flags.h: the flags of `lockstep chaos`, and doing what they ask. For main files only:
// CLI11's header is large. Threads: main.
#pragma once

#include <CLI/CLI.hpp>

#include "experiments/cli/chaos.h"

namespace lockstep {

class ChaosCommand {
 public:
  // Adds the command to `app`, which must outlive the object.
  explicit ChaosCommand(CLI::App* app);
  ChaosCommand(const ChaosCommand&) = delete;
  ChaosCommand& operator=(const ChaosCommand&) = delete;

  bool asked() const { return command_->parsed(); }
  // Prints the answer. Returns the exit code: 0, 1 when a promise was broken, 2 for bad usage.
  int Run() const;

 private:
  CLI::App* command_;
  ChaosArguments arguments_;
};

}  // namespace lockstep
