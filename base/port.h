// port.h: something that serves one at a time, for simulators: one direction of a network port, a
// processor. Who asks first is served first. It must be asked at the moment of need, in an event of
// the simulator's clock, never ahead: whoever books for the future makes those wait who come later
// and would have been through before. Units: nanoseconds. Pure.
#pragma once

#include <algorithm>

namespace lockstep {

class Port {
 public:
  struct Turn {
    double begin_ns = 0;
    double end_ns = 0;
  };

  // The next turn. REQUIRES: now_ns not less than in any call before.
  Turn Reserve(double now_ns, double duration_ns) {
    const double begin_ns = std::max(now_ns, free_at_ns_);
    free_at_ns_ = begin_ns + duration_ns;
    busy_ns_ += duration_ns;
    return {begin_ns, free_at_ns_};
  }

  double free_at_ns() const { return free_at_ns_; }
  double busy_ns() const { return busy_ns_; }  // of all turns so far

 private:
  double free_at_ns_ = 0;
  double busy_ns_ = 0;
};

}  // namespace lockstep
