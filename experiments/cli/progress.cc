#include "experiments/cli/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace lockstep {
namespace {

constexpr int64_t kPlainPauseNs = 5 * kNsPerSecond;
constexpr int64_t kRedrawPauseNs = kNsPerSecond / 5;

}  // namespace

Progress::Progress(std::FILE* out, bool plain, std::vector<std::string> plan, const Clock& clock)
    : out_(out),
      in_place_(!plain && isatty(fileno(out)) != 0),
      plan_(std::move(plan)),
      clock_(clock),
      remaining_(plan_),
      last_line_ns_(clock.NowNs()) {}

Progress::~Progress() { Clear(); }

void Progress::BeginRun(int block, int blocks, int64_t steps) {
  ++run_;
  block_ = block;
  blocks_ = blocks;
  steps_ = steps;
  remaining_.BeginRun(clock_.NowNs());
  Draw(/*running=*/false, /*step=*/0);
}

void Progress::Update(bool running, int64_t step) {
  if (clock_.NowNs() - last_line_ns_ < (in_place_ ? kRedrawPauseNs : kPlainPauseNs)) return;
  Draw(running, step);
}

void Progress::Draw(bool running, int64_t step) {
  last_line_ns_ = clock_.NowNs();
  const double share =
      static_cast<double>(step) / static_cast<double>(std::max<int64_t>(1, steps_));
  const std::optional<double> left_s = remaining_.SecondsLeft(last_line_ns_, share);
  const std::string& kind = plan_[run_ - 1];
  if (!in_place_) {
    absl::FPrintF(out_, "run=%d/%d block=%d/%d variant=%s step=%d/%d eta_s=%s\n", run_,
                  plan_.size(), block_, blocks_, kind, step, steps_,
                  left_s ? absl::StrCat(static_cast<int64_t>(std::ceil(*left_s))) : "?");
    return;
  }
  const std::string what = running ? absl::StrFormat("step %d/%d", step, steps_) : "starting";
  const std::string line =
      absl::StrFormat("run %d/%d  block %d/%d  %s  %s%s", run_, plan_.size(), block_, blocks_, kind,
                      what, left_s ? absl::StrCat("  ", AboutLeft(*left_s)) : "");
  constexpr char kClearLine[] = "\r\033[K";
  absl::FPrintF(out_, "%s%.78s", kClearLine, line);
  std::fflush(out_);
}

void Progress::EndRun() {
  remaining_.EndRun(clock_.NowNs());
  Clear();
}

void Progress::Say(const std::string& line) {
  Clear();
  absl::FPrintF(out_, "%s\n", line);
}

void Progress::Clear() {
  if (!in_place_) return;
  absl::FPrintF(out_, "\r\033[K");
  std::fflush(out_);
}

}  // namespace lockstep
