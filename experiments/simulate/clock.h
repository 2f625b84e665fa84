// clock.h: what the clocks of one simulated host show. The monotonic one runs at its own rate, from
// its own start; the wall clock may jump on top of it. Leases and deadlines are on the monotonic
// one. Units: nanoseconds; `true_ns` is the simulator's own time, which no process can read. Pure.
#pragma once

#include <cstdint>

namespace lockstep {

class SimClock {
 public:
  // `rate`: nanoseconds that it shows for one true one, > 0.
  SimClock(double rate, int64_t start_ns) : rate_(rate), shown_ns_(static_cast<double>(start_ns)) {}

  int64_t MonotonicNs(double true_ns) const {
    return static_cast<int64_t>(shown_ns_ + (true_ns - since_ns_) * rate_);
  }
  int64_t WallNs(double true_ns) const { return MonotonicNs(true_ns) + wall_ahead_ns_; }
  // True time that passes while this clock shows `local_ns` more.
  double TrueDelayNs(double local_ns) const { return local_ns / rate_; }

  void SetRate(double true_ns, double rate) {
    shown_ns_ += (true_ns - since_ns_) * rate_;
    since_ns_ = true_ns;
    rate_ = rate;
  }
  // The wall clock alone.
  void Jump(int64_t by_ns) { wall_ahead_ns_ += by_ns; }

 private:
  double rate_;
  double shown_ns_;
  double since_ns_ = 0;
  int64_t wall_ahead_ns_ = 0;
};

}  // namespace lockstep
