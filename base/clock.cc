#include "base/clock.h"

#include <ctime>

namespace lockstep {

int64_t MonotonicClock::NowNs() const {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * kNsPerSecond + now.tv_nsec;
}

}  // namespace lockstep
