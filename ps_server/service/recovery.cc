// How long a later group took to stand again, and what it cost.
#include <algorithm>
#include <utility>

#include "ps_server/service/exchange.h"

namespace lockstep {

// Called whenever a copy joined or is missing. A gap that several groups have in common is one.
void Exchange::NoteExposure() {
  const bool exposed =
      config_.exposed || std::any_of(seats_.begin(), seats_.end(), [](const auto& entry) {
        return entry.second.place.successor_joins && !entry.second.joined;
      });
  const int64_t now_ns = clock_.NowNs();
  if (exposed && !exposed_since_ns_.has_value()) {
    const bool learnt = recovery_.has_value() && recovery_->broken_ns > 0;
    exposed_since_ns_ = learnt ? recovery_->broken_ns : now_ns;
  }
  if (exposed || !exposed_since_ns_.has_value()) return;
  if (recovery_.has_value()) recovery_->exposed_ns = now_ns - *exposed_since_ns_;
  exposed_since_ns_.reset();
  if (recovery_.has_value() && recovery_->serving_ns > 0) ReportRecovery(now_ns);
}

void Exchange::NoteServing() {
  if (!recovery_.has_value() || recovery_->serving_ns > 0) return;
  recovery_->serving_ns = clock_.NowNs();
  recovery_->version = seats_.begin()->second.copy->version();
  if (!exposed_since_ns_.has_value()) ReportRecovery(recovery_->serving_ns);
}

// A group that never served is not reported: its successor is.
void Exchange::ReportRecovery(int64_t now_ns) {
  if (left_ || !recovery_.has_value() || recovery_->serving_ns == 0) return;
  ServerRecovery recovery = *std::exchange(recovery_, std::nullopt);
  recovery.duplicates = counters_.duplicates - duplicates_before_;
  if (exposed_since_ns_.has_value()) recovery.exposed_ns = now_ns - *exposed_since_ns_;
  if (events_.recovered) events_.recovered(recovery);
}

}  // namespace lockstep
