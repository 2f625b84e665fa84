// shard_state.h: everything a shard is, between two updates: what a snapshot holds, what a replica
// is given, and what two copies of a shard must agree on. Who has pushed what is part of it, so
// that a push that comes again is known as such by a restored server and by a replica that took
// over. Staged pushes are not: whoever sent one sends it again. Plain data; encoding is
// deterministic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ps_server/core/staleness.h"
#include "ps_server/core/update.h"

namespace lockstep {

// Shared, because a reply or a snapshot may still be under way when the shard moves on.
using SharedParameters = std::shared_ptr<const std::vector<float>>;

// What a shard remembers of a worker, whatever process it is.
struct WorkerMark {
  int64_t incarnation = -1;  // newest one that attached
  int64_t last_step = 0;     // applied, or dropped for good (K_OF_N)
  int64_t dropped = 0;       // pushes, K_OF_N
  bool rejected = false;     // the push of last_step was dropped

  bool operator==(const WorkerMark&) const = default;
};

struct ShardState {
  int32_t shard = 0;
  int64_t offset = 0;   // of the shard in the flat space
  uint64_t layout = 0;  // fingerprint of tensors, workers and rules, whatever the number of shards
  int64_t version = 0;  // updates applied
  SharedParameters parameters;
  int64_t round = 0;                     // Shard::round
  SharedParameters previous;             // what a worker that is behind reads; null: nobody is
  int64_t previous_version = 0;          // of `previous`
  int64_t previous_step = 0;             // whoever is behind is at this one
  std::vector<float> optimizer_state;    // slots one after the other, each as long as `parameters`
  std::vector<WorkerMark> workers;       // [index]
  std::vector<StalenessMark> staleness;  // [index]; ASYNC, BOUNDED
};

// Equal exactly when both copies would go on alike.
bool operator==(const ShardState& a, const ShardState& b);

// A header with sizes and checksums, then the body: marks, parameters, previous ones if there are
// any, optimizer state. Numbers are little-endian. `parts` are the bytes in order and point into
// `state`, except for what `header` holds: both must stay where they are.
struct EncodedState {
  std::string header;                             // and the marks
  std::vector<std::span<const std::byte>> parts;  // header first
  int64_t bytes = 0;
  std::string checksum;  // XXH3-128 of all of it, hex
};
// REQUIRES: state.parameters is set.
EncodedState EncodeState(const ShardState& state);
// Errors: DataLoss (truncated, damaged, not a state: says which), InvalidArgument (another version
// of the format). Sizes are checked before anything is allocated for them.
absl::StatusOr<ShardState> DecodeState(std::span<const std::byte> bytes);

// The elements [offset, offset + count) of the flat space out of shards cut otherwise: for a
// restart on another number of servers (placement SPLIT, where a shard is a range). A worker's mark
// is the least of all parts, so that nothing is taken for applied that one of them lacks. Only
// states of one cut may be mixed. SYNC, K_OF_N: every shard is in the same round, and nothing is
// made twice. ASYNC, BOUNDED: shards of a cut differ by pushes that were under way; the new version
// is the sum of the workers' steps, and a part that was ahead gets those pushes once more.
// Errors: InvalidArgument (no parts, parts that do not fit each other), FailedPrecondition
// (versions, layouts differ), NotFound (a range no part covers).
absl::StatusOr<ShardState> Recut(std::span<const ShardState> parts, int32_t shard, int64_t offset,
                                 int64_t count);

}  // namespace lockstep
