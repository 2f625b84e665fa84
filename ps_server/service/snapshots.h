// snapshots.h: shards on disk: <folder>/step-000000000140/shard-2-of-3, an encoded ShardState
// (core/shard_state.h) that says by its checksum whether it is whole. A file has its name only once
// it is written and synced, so one that has it was whole then. The names of a cut are those of all
// its shards; servers that write to one folder see each other's.
// Errors: as Files, and DataLoss from ReadSnapshot, which names the file. Threads: one for each
// shard.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ps_server/core/crash_point.h"
#include "ps_server/core/shard_state.h"
#include "ps_server/service/files.h"

namespace lockstep {

struct SnapshotPlace {
  std::string folder;
  int32_t shard = 0;
  int32_t shards = 1;
  int64_t step = 0;  // of the cut

  std::string cut() const;   // "step-000000000140"
  std::string path() const;  // "step-000000000140/shard-2-of-3"
};
struct SavedSnapshot {
  SnapshotPlace place;
  int64_t version = 0;
  int64_t bytes = 0;
  std::string checksum;  // hex
};

// Writes, syncs and names it. `go_on` is asked between two pieces: what is not OK ends it. A
// failure leaves no file of its own behind where the file system lets it.
absl::StatusOr<SavedSnapshot> WriteSnapshot(const SnapshotPlace& place, const ShardState& state,
                                            Files* files, const CrashHook& crash,
                                            const std::function<absl::Status()>& go_on);
// The shard's state; or, of a cut that another number of servers made, those of all its shards.
// DataLoss: a file that is missing or damaged, by name.
absl::StatusOr<std::vector<ShardState>> ReadSnapshot(const SnapshotPlace& place, Files* files);
// Removes this shard's files of older cuts: all but those of the two newest cuts that are complete,
// which a run may go back to, and of the two newest. What can't be removed stays.
void PruneSnapshots(const SnapshotPlace& newest, Files* files);
// Removes this shard's files of cuts later than this one: those steps are made again.
void RewindSnapshots(const SnapshotPlace& place, Files* files);

}  // namespace lockstep
