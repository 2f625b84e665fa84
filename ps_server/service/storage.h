// storage.h: writes a server's snapshots beside training: a thread of its own, and of each shard
// one state that waits for it; a newer one takes its place, so that nobody waits for a disk.
// A snapshot that can't be written (disk full, failed sync, deadline) is reported and training goes
// on: the cuts before it stay. Threads: calls may come from any; events come from the own thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/sync.h"
#include "ps_server/core/crash_point.h"
#include "ps_server/core/shard_state.h"
#include "ps_server/service/files.h"
#include "ps_server/service/snapshots.h"

namespace lockstep {

struct StorageOptions {
  std::string folder;
  int32_t shards = 1;
  int64_t timeout_ms = 0;  // of one snapshot
};
struct StorageEvents {
  std::function<void(const SavedSnapshot&)> saved;
  std::function<void(const SnapshotPlace&, const absl::Status&)> failed;
};

class Storage {
 public:
  // `files` and `clock` must outlive it.
  Storage(StorageOptions options, Files* files, const Clock& clock, StorageEvents events,
          CrashHook crash);
  // Gives up what is not written yet.
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void Save(int64_t step, std::shared_ptr<const ShardState> state);
  // Goes back to the cut of `step`, once what is being written is. Errors: as ReadSnapshot.
  absl::StatusOr<std::vector<ShardState>> Restore(int32_t shard, int64_t step);

 private:
  using Waiting = std::pair<int64_t, std::shared_ptr<const ShardState>>;  // step, state
  void Work();
  void Write(const Waiting& next);
  SnapshotPlace PlaceOf(int32_t shard, int64_t step) const;

  const StorageOptions options_;
  Files* const files_;
  const Clock& clock_;
  const StorageEvents events_;
  const CrashHook crash_;
  Mutex mu_;
  std::map<int32_t, Waiting> waiting_ ABSL_GUARDED_BY(mu_);  // by shard
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace lockstep
