// in_process.h: all ranks in one process, one thread each, joined by bounded queues under one lock.
// For tests and for the engine without a network: a message is copied into a slot of its queue and
// out again, so a full queue holds its sender back just as a full socket does. Errors: as link.h
// says. Waits look at the clock and the abort every few milliseconds, since a lock can't be polled
// together with them. Threads: each link one thread at a time; the links of one group may be on
// different threads.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "allreduce/transport/link.h"
#include "base/abort.h"
#include "base/clock.h"
#include "base/limits.h"

namespace lockstep {

struct InProcessGroup {
  int world_size = 1;
  int channels = 1;
  int slots = 2;  // messages that a connection holds
  int64_t epoch = 0;
};

// [rank]. `clock` and `abort` must outlive the links.
std::vector<std::unique_ptr<Link>> MakeInProcessLinks(const InProcessGroup& group,
                                                      const Limits& limits, const Clock& clock,
                                                      const Abort& abort);

}  // namespace lockstep
