// cpu_time.h: processor time. Linux. Thread-safe.
#pragma once

#include <cstdint>

namespace lockstep {

// Of all threads of this process so far, in user and system mode.
int64_t ProcessCpuNs();

}  // namespace lockstep
