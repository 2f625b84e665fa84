// run.h: one run of one variant: coordinator, servers and workers as processes on this host, from
// start to the last exit. Every process is gone when it returns, at most limits.stop_grace_ms after
// the stop.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/abort.h"
#include "base/clock.h"
#include "base/socket.h"
#include "experiments/coordinator/membership.h"
#include "proto/coordinator.pb.h"

namespace lockstep {

struct RunOptions {
  std::string program_dir;             // holds `worker` and `ps_server`
  Endpoint listen = {"127.0.0.1", 0};  // of the coordinator; members take its host, and free ports
  std::string run_dir;                 // records/ and logs/ are made here
  std::string nccl_library;            // of the workers; empty: as they find it
  std::string cublas_library;          // likewise
};

struct RunProgress {
  bool running = false;  // false: members are joining or connecting
  int64_t step = 0;
};

struct RunOutcome {
  absl::Status status;            // OK: complete; Cancelled: interrupted; else the first cause
  std::vector<Failure> failures;  // first cause first
};

// `progress` is called about 20 times a second, `line` for each message to the user.
// `abort` ends the run early (Ctrl-C); its status becomes the outcome.
RunOutcome ExecuteRun(const RunConfig& config, const RunOptions& options, const Clock& clock,
                      const Abort& abort, const std::function<void(const RunProgress&)>& progress,
                      const std::function<void(const std::string&)>& line);

}  // namespace lockstep
