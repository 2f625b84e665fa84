// remaining.h: how long the rest of a comparison takes, judged by its finished runs: a run takes as
// long as those of its kind took on average, and where none of its kind has ended, as all of them.
// In the first run its own finished steps have to do. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

class RemainingTime {
 public:
  // The kinds of all runs, in order: "ring", "ring-n4".
  explicit RemainingTime(std::vector<std::string> plan) : plan_(std::move(plan)) {}

  // One run after the other, as planned.
  void BeginRun(int64_t now_ns) { begin_ns_ = now_ns; }
  void EndRun(int64_t now_ns);

  // `share`: of the current run's steps that are done. nullopt: nothing is known yet.
  std::optional<double> SecondsLeft(int64_t now_ns, double share) const;

 private:
  struct Ended {
    double total_s = 0;
    int count = 0;
    std::optional<double> mean_s() const {
      return count == 0 ? std::nullopt : std::make_optional(total_s / count);
    }
  };
  std::optional<double> Expected(const std::string& kind) const;

  const std::vector<std::string> plan_;
  size_t current_ = 0;  // index in plan_
  int64_t begin_ns_ = 0;
  std::map<std::string, Ended> ended_;
  Ended all_;
};

// "about 40 s left"; rounded up, and the more coarsely the longer.
std::string AboutLeft(double seconds);

}  // namespace lockstep
