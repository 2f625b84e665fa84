// progress.h: what runs now and how long it may take: one line rewritten in place on a terminal
// ("run 5/24  block 1/3  ring  step 40/120  about 35 s left"), elsewhere a plain line for each run
// and every 5 s ("run=5/24 block=1/3 variant=ring step=40/120 eta_s=35"). Threads: one.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "base/clock.h"
#include "experiments/cli/remaining.h"

namespace lockstep {

class Progress {
 public:
  // `plan`: the kinds of all runs in order, shown as their names. `plain`: no rewriting, whatever
  // `out` is. `out` and `clock` must outlive it.
  Progress(std::FILE* out, bool plain, std::vector<std::string> plan, const Clock& clock);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // The next run of the plan. `block` counts from 1.
  void BeginRun(int block, int blocks, int64_t steps);
  // `running`: false while members join and connect.
  void Update(bool running, int64_t step);
  void EndRun();
  // A message that stays; the progress line goes on below it.
  void Say(const std::string& line);

 private:
  void Draw(bool running, int64_t step);
  void Clear();

  std::FILE* const out_;
  const bool in_place_;
  const std::vector<std::string> plan_;
  const Clock& clock_;
  RemainingTime remaining_;
  size_t run_ = 0;  // begun so far
  int block_ = 0;
  int blocks_ = 0;
  int64_t steps_ = 0;
  int64_t last_line_ns_;
};

}  // namespace lockstep
