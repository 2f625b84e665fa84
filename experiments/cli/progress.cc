#include "experiments/cli/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace lockstep {
namespace {

constexpr int64_t kPlainPauseNs = 5 * kNsPerSecond;
constexpr int64_t kRedrawPauseNs = kNsPerSecond / 5;

}  // namespace

Progress::Progress(bool plain, int runs, const Clock& clock)
    : in_place_(!plain && isatty(STDERR_FILENO) != 0),
      runs_(runs),
      clock_(clock),
      start_ns_(clock.NowNs()),
      last_line_ns_(clock.NowNs()) {}

Progress::~Progress() { Clear(); }

void Progress::BeginRun(int block, int blocks, const std::string& variant, int64_t steps) {
  block_ = block;
  blocks_ = blocks;
  variant_ = variant;
  steps_ = steps;
}

void Progress::Update(bool running, int64_t step) {
  const int64_t now_ns = clock_.NowNs();
  if (now_ns - last_line_ns_ < (in_place_ ? kRedrawPauseNs : kPlainPauseNs)) return;
  last_line_ns_ = now_ns;
  if (!in_place_) {
    absl::FPrintF(stderr, "block=%d/%d variant=%s step=%d/%d eta_s=%s\n", block_, blocks_, variant_,
                  step, steps_, EtaText(step));
    return;
  }
  const std::string what = running ? absl::StrFormat("step %d/%d", step, steps_) : "starting";
  const std::string line = absl::StrFormat("block %d/%d  %s  %s  %s s left", block_, blocks_,
                                           variant_, what, EtaText(step));
  absl::FPrintF(stderr, "\r\033[K%.78s", line);
  std::fflush(stderr);
}

void Progress::EndRun() {
  ++finished_;
  Clear();
}

void Progress::Say(const std::string& line) {
  Clear();
  absl::FPrintF(stderr, "%s\n", line);
}

std::string Progress::EtaText(int64_t step) const {
  const double done =
      finished_ + static_cast<double>(step) / static_cast<double>(std::max<int64_t>(1, steps_));
  if (done <= 0) return "?";
  const double elapsed_s =
      static_cast<double>(clock_.NowNs() - start_ns_) / static_cast<double>(kNsPerSecond);
  return absl::StrCat(static_cast<int64_t>(std::ceil(elapsed_s * (runs_ - done) / done)));
}

void Progress::Clear() {
  if (in_place_) absl::FPrintF(stderr, "\r\033[K");
}

}  // namespace lockstep
