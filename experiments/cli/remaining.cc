#include "experiments/cli/remaining.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/clock.h"

namespace lockstep {
namespace {

double Seconds(int64_t ns) { return static_cast<double>(ns) / static_cast<double>(kNsPerSecond); }

int64_t RoundUp(double value, int64_t unit) {
  return static_cast<int64_t>(std::ceil(value / static_cast<double>(unit))) * unit;
}

}  // namespace

void RemainingTime::EndRun(int64_t now_ns) {
  if (current_ >= plan_.size()) return;
  const double took_s = Seconds(now_ns - begin_ns_);
  for (Ended* ended : {&ended_[plan_[current_]], &all_}) {
    ended->total_s += took_s;
    ++ended->count;
  }
  ++current_;
  begin_ns_ = now_ns;
}

std::optional<double> RemainingTime::Expected(const std::string& kind) const {
  const auto ended = ended_.find(kind);
  return ended == ended_.end() ? all_.mean_s() : ended->second.mean_s();
}

std::optional<double> RemainingTime::SecondsLeft(int64_t now_ns, double share) const {
  if (current_ >= plan_.size()) return 0;
  const double elapsed_s = Seconds(now_ns - begin_ns_);
  const auto by_steps = share > 0 ? std::make_optional(elapsed_s / share) : std::nullopt;
  // Of the current run, finished runs of its kind tell most, then its own steps.
  const bool known_kind = ended_.contains(plan_[current_]);
  const auto expected = Expected(plan_[current_]);
  const auto whole_s = !known_kind && by_steps.has_value() ? by_steps : expected;
  if (!whole_s.has_value()) return std::nullopt;
  double left_s = std::max(0.0, *whole_s - elapsed_s);
  for (size_t i = current_ + 1; i < plan_.size(); ++i) {
    left_s += Expected(plan_[i]).value_or(*whole_s);
  }
  return left_s;
}

std::string AboutLeft(double seconds) {
  constexpr double kMinute = 60;
  constexpr double kHour = 3'600;
  if (seconds <= 10) return absl::StrCat("about ", RoundUp(seconds, 1), " s left");
  if (seconds <= 2 * kMinute) return absl::StrCat("about ", RoundUp(seconds, 5), " s left");
  if (seconds <= 2 * kHour) {
    return absl::StrCat("about ", RoundUp(seconds / kMinute, 1), " min left");
  }
  return absl::StrCat("about ", RoundUp(seconds / kHour, 1), " h left");
}

}  // namespace lockstep
