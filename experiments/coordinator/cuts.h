// cuts.h: the snapshots that the servers have reported, by cut. A cut is a step that every shard
// was saved at; only one that is complete may be gone back to. Steps in between may be missing: a
// disk was full, a server was lost. The complete ones, the newest first, are the run's manifest;
// older ones than the newest kCompleteKept are forgotten, as their files may be gone. Pure: no I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "proto/coordinator.pb.h"

namespace lockstep {

class Cuts {
 public:
  explicit Cuts(int shards) : shards_(shards) {}

  // True: the manifest is another one now. A shard or step that can't be is left out.
  bool Add(const Saved& saved);
  // Step of the newest complete cut.
  std::optional<int64_t> newest() const;
  // The run goes back to `step`: what was saved of later ones belongs to steps that are made again.
  void RewindTo(int64_t step);
  // The cut of `step` can't be restored.
  void Spoil(int64_t step) { cuts_.erase(step); }
  // One line a shard, each a MemberEvent in text format: saved { shard: 0 version: 140 ... }
  std::string Manifest() const;

 private:
  using Cut = std::map<int32_t, Saved>;         // [shard]
  static constexpr int kCompleteKept = 2;       // the newest may turn out to be damaged
  static constexpr size_t kIncompleteMax = 64;  // one shard can't be saved: the others' reports

  bool Whole(const Cut& cut) const { return cut.size() == static_cast<size_t>(shards_); }
  void Forget();

  const int shards_;
  std::map<int64_t, Cut> cuts_;  // [step]
};

}  // namespace lockstep
