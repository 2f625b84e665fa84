// progress.h: what runs now, on standard error: one line rewritten in place on a terminal, a plain
// line every 5 s elsewhere ("block=1/3 variant=ring step=40/120 eta_s=12"). Threads: one.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"

namespace lockstep {

class Progress {
 public:
  // `plain`: no rewriting, whatever standard error is.
  Progress(bool plain, int runs, const Clock& clock);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void BeginRun(int block, int blocks, const std::string& variant, int64_t steps);
  void Update(bool running, int64_t step);
  void EndRun();
  // A message that stays; the progress line goes on below it.
  void Say(const std::string& line);

 private:
  std::string EtaText(int64_t step) const;
  void Clear();

  const bool in_place_;
  const int runs_;
  const Clock& clock_;
  const int64_t start_ns_;
  int finished_ = 0;
  int block_ = 0;
  int blocks_ = 0;
  std::string variant_;
  int64_t steps_ = 0;
  int64_t last_line_ns_;
};

}  // namespace lockstep
