// command.h: the commands `lockstep bench allreduce`, `bench ps` and `bench gpu`: options, run, and
// what they print. Exit codes: DESIGN section 9; 1 where a result was wrong. Threads: called from
// main, before any other thread exists.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "experiments/bench/gpu.h"
#include "experiments/bench/options.h"
#include "experiments/bench/ps/ps_bench.h"

namespace lockstep {

class BenchCommand {
 public:
  // Adds the command; `app` must outlive this object.
  explicit BenchCommand(CLI::App* app);
  BenchCommand(const BenchCommand&) = delete;
  BenchCommand& operator=(const BenchCommand&) = delete;

  bool asked() const { return app_->parsed(); }
  // `command_line`: as the user typed it, for the record. `program_dir`: allreduce_rank, ps_rank,
  // gpu_check and the engines' shared objects are there.
  int Run(const std::string& command_line, const std::string& program_dir) const;

 private:
  void AddAllReduce();
  void AddPs();
  void AddGpu();
  int RunAllReduce(const std::string& command_line, const std::string& program_dir) const;
  int RunPs(const std::string& command_line, const std::string& program_dir) const;
  int RunGpu(const std::string& command_line, const std::string& program_dir) const;

  CLI::App* const app_;
  CLI::App* ps_ = nullptr;
  CLI::App* gpu_ = nullptr;
  BenchArguments arguments_;
  PsBenchArguments ps_arguments_;
  GpuBenchArguments gpu_arguments_;
};

}  // namespace lockstep
