// faults.h: the command `lockstep faults`: every variant of a spec once for each role that it has
// and each way to strike it, as a table. Exit codes: DESIGN section 9; 1 where a run hung or blamed
// somebody who was not struck. Threads: called from main, before any other thread exists.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "experiments/spec/spec.h"

namespace lockstep {

class FaultsCommand {
 public:
  // Adds the command; `app` must outlive this object.
  explicit FaultsCommand(CLI::App* app);
  FaultsCommand(const FaultsCommand&) = delete;
  FaultsCommand& operator=(const FaultsCommand&) = delete;

  bool asked() const { return command_->parsed(); }
  // `command_line`: as the user typed it. `program_dir`: `lockstep` and the programs that it starts
  // are there.
  int Run(const std::string& command_line, const std::string& program_dir) const;

 private:
  CLI::App* const command_;
  std::string spec_ = "failures";
  SpecOptions options_;
  std::optional<int64_t> step_;
  std::string out_;
  bool json_ = false;
};

}  // namespace lockstep
