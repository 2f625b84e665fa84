// host.h: what this machine is and how busy it was: the guard of every claim about speed.
// Reads /proc; what cannot be read is left unset. Threads: one.
#pragma once

#include <cstdint>

#include "proto/record.pb.h"

namespace lockstep {

class HostWatch {
 public:
  HostWatch();
  // Call now and then; keeps the largest load average.
  void Sample();
  // Since construction. `processes`: the most that ran at once; more than cores makes the host
  // CPU-bound.
  HostInfo Describe(int processes) const;

 private:
  struct CpuTime {
    int64_t busy = 0;
    int64_t total = 0;
  };
  static CpuTime ReadCpuTime();
  static double ReadLoadAverage();

  CpuTime start_;
  double loadavg_max_ = 0;
};

// Processors that this process may use.
int UsableCores();

}  // namespace lockstep
