#include "experiments/simulate/disk.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include "absl/strings/str_cat.h"

namespace lockstep {

std::string SimDisk::NameOf(int32_t shard, int64_t step) {
  return absl::StrCat("step-", step, "/shard-", shard);
}

absl::Status SimDisk::Write(int32_t server, int32_t shard, int64_t step, std::string bytes) {
  const auto refusal = refusals_.find(server);
  if (refusal != refusals_.end() && refusal->second.writes > 0) {
    --refusal->second.writes;
    return refusal->second.why;
  }
  cuts_[step][shard] = std::move(bytes);
  return absl::OkStatus();
}

absl::StatusOr<ShardState> SimDisk::Read(int32_t shard, int64_t step) const {
  const auto cut = cuts_.find(step);
  const std::string name = NameOf(shard, step);
  if (cut == cuts_.end() || !cut->second.contains(shard)) {
    return absl::DataLossError(absl::StrCat("snapshot ", name, " is missing"));
  }
  absl::StatusOr<ShardState> state = DecodeState(std::as_bytes(std::span(cut->second.at(shard))));
  if (state.ok()) return state;
  return absl::DataLossError(absl::StrCat("snapshot ", name, ": ", state.status().message()));
}

void SimDisk::Rewind(int32_t shard, int64_t step) {
  for (auto cut = cuts_.upper_bound(step); cut != cuts_.end(); ++cut) cut->second.erase(shard);
}

void SimDisk::Refuse(int32_t server, int64_t writes, absl::Status why) {
  refusals_[server] = {writes, std::move(why)};
}

void SimDisk::DamageNewest(int32_t shard, double share, bool flips) {
  const auto newest = std::find_if(cuts_.rbegin(), cuts_.rend(),
                                   [shard](const auto& cut) { return cut.second.contains(shard); });
  if (newest == cuts_.rend()) return;
  std::string& bytes = newest->second[shard];
  const auto at =
      std::min(static_cast<size_t>(share * static_cast<double>(bytes.size())), bytes.size() - 1);
  if (flips) {
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
  } else {
    bytes.resize(at);
  }
  size_t most = 0;
  for (const auto& [step, cut] : cuts_) {
    if (step < newest->first) most = std::max(most, cut.size());
  }
  damaged_[newest->first] = most;
}

bool SimDisk::irreplaceable(int32_t shards) const {
  return std::any_of(damaged_.begin(), damaged_.end(), [shards](const auto& damage) {
    return damage.second < static_cast<size_t>(shards);
  });
}

}  // namespace lockstep
