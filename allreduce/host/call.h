// call.h: what a rank has called, in a form that ranks can compare: 64 bytes, hashed into every
// message. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "allreduce/schedule/generate.h"
#include "base/numeric/dtype.h"

namespace lockstep {

enum class Operation : uint8_t {
  kAllReduce = 0,
  kBroadcast = 1,
  kPingPong = 2,
  kReduce = 3,
  kReduceScatter = 4,
  kAllGather = 5,
  kBarrier = 6,
  kGroup = 7,
  kAllocate = 8,
  kTune = 9,  // AUTO's measurement
};

struct CallDescription {
  int64_t sequence = 0;  // of this rank's calls in this group, from 0
  int64_t count = 0;     // elements; kGroup: ranks, kAllocate: bytes
  int64_t tile_bytes = 0;
  uint64_t group = 0;  // FingerprintOfGroup; 0: all ranks of the link
  uint64_t list = 0;   // kGroup: the fingerprint of its ranks, in their order
  int32_t root = -1;   // -1: the operation has none
  int32_t channels = 1;
  int32_t servers = 0;
  int32_t group_size = 0;  // kHierarchical
  Operation operation = Operation::kAllReduce;
  Dtype dtype = Dtype::kF32;
  ReduceOp op = ReduceOp::kSum;
  Algorithm algorithm = Algorithm::kRing;
  Placement placement = Placement::kSpare;
  std::array<uint8_t, 3> unused{};  // no padding: hashed as bytes

  bool operator==(const CallDescription&) const = default;
};
static_assert(sizeof(CallDescription) == 64);
static_assert(std::has_unique_object_representations_v<CallDescription>);

// Do ranks of the operation have a reduction, a root, to agree on?
bool Reduces(Operation operation);
bool HasRoot(Operation operation);

uint64_t FingerprintOf(const CallDescription& call);

// Of the group that the call `creation` makes, and of the list of its ranks.
uint64_t FingerprintOfGroup(const CallDescription& creation);
uint64_t FingerprintOfRanks(const std::vector<int>& ranks);

// What no engine takes, so that each refuses it alike, before anything is sent. InvalidArgument: a
// count that is negative or too large for memory, a reduction that the dtype lacks (AVG of
// integers), a root out of range.
absl::Status CheckArguments(const CallDescription& call, int world_size);

// "all_reduce #3 (f32 sum, count 1024, ring, 2 channels, tiles of 1048576 bytes)". Safe for values
// from the network.
std::string ToString(const CallDescription& call);

}  // namespace lockstep
