// disk.h: the simulated storage of snapshots, which all hosts share and which outlives them. A file
// is there once it is whole and synced, as ps_server/service/snapshots.h has it. It may refuse what
// a server writes, and a file may be damaged afterwards. Pure. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ps_server/core/shard_state.h"

namespace lockstep {

class SimDisk {
 public:
  // "step-4/shard-1"
  static std::string NameOf(int32_t shard, int64_t step);

  // Errors: what Refuse has said; then there is no file.
  absl::Status Write(int32_t server, int32_t shard, int64_t step, std::string bytes);
  // Errors: DataLoss, naming the file that is missing or damaged.
  absl::StatusOr<ShardState> Read(int32_t shard, int64_t step) const;
  // Removes what `shard` has of later cuts.
  void Rewind(int32_t shard, int64_t step);

  // The next `writes` of `server` fail with `why`.
  void Refuse(int32_t server, int64_t writes, absl::Status why);
  // The newest file of `shard` is cut off after `share` of its bytes, or (`flips`) has one bit
  // there that is another.
  void DamageNewest(int32_t shard, double share, bool flips);
  // Some file was damaged that nothing older could stand in for: not all of `shards` had one.
  bool irreplaceable(int32_t shards) const;

 private:
  struct Refusal {
    int64_t writes = 0;
    absl::Status why;
  };
  using Cut = std::map<int32_t, std::string>;  // [shard]

  std::map<int64_t, Cut> cuts_;          // [step]
  std::map<int32_t, Refusal> refusals_;  // [server]
  std::map<int64_t, size_t> damaged_;    // [step]: the most files that any older cut had
};

}  // namespace lockstep
