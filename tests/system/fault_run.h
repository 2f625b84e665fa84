// fault_run.h: a comparison of one variant with planned faults, as a user runs it, and
// what its record files say afterwards. Threads: one.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "proto/record.pb.h"
#include "tests/system/command.h"
#include "tests/system/comparison.h"

namespace lockstep {

struct FaultRunOptions {
  std::string algorithm = "RING";
  std::string on_loss = "STOP";
  std::string ps = {};  // text of a `ps` block, in place of all_reduce
  int workers = 3;
  int steps = 20;
  std::vector<std::string> faults = {};  // in text format, without the braces
  std::vector<std::string> set = {};     // more settings
};

// Bounds of these runs: an expiry is seen in a few seconds, and a busy machine makes none by
// itself.
inline constexpr int kLeaseMs = 1'500;
inline constexpr int kSyncMs = 2'500;

class FaultRun {
 public:
  explicit FaultRun(const FaultRunOptions& options);

  const CommandResult& result() const { return compared_.result; }
  const RunFile& run() const { return compared_.run; }
  const std::vector<Record>& worker(int index) const {
    return records_[static_cast<size_t>(index)];
  }
  // Of all processes that were this server.
  const std::vector<Record>& server(int index) const {
    return servers_[static_cast<size_t>(index)];
  }
  // The parameters after the last step; empty where this worker did not get there.
  std::string FinalHash(int index) const;
  std::vector<float> FinalParameters(int index) const;
  // "KILL of fault 0 at step 7, planned 7", over all workers in order of time.
  std::vector<std::string> Injections() const;
  std::vector<Rebuilt> Rebuilds(int index) const;
  std::string Log(const std::string& name) const;

 private:
  const FaultRunOptions options_;
  const TemporaryDir dir_;
  Compared compared_;
  std::vector<std::vector<Record>> records_;  // [worker]
  std::vector<std::vector<Record>> servers_;  // [server], of those that left a record
};

// The final hash of the same run without faults; made once for each algorithm and number.
class Undisturbed {
 public:
  const std::string& HashOf(const std::string& algorithm, int workers, int steps = 20);

 private:
  std::map<std::string, std::string> hashes_;
};

}  // namespace lockstep
