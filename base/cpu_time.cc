#include "base/cpu_time.h"

#include <ctime>

#include "base/clock.h"

namespace lockstep {

int64_t ProcessCpuNs() {
  timespec spent{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
  return spent.tv_sec * kNsPerSecond + spent.tv_nsec;
}

}  // namespace lockstep
