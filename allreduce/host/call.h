// call.h: what a rank has called, in a form that ranks can compare: 40 bytes, hashed into every
// message. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include "allreduce/schedule/algorithm.h"
#include "base/numeric/dtype.h"

namespace lockstep {

enum class Operation : uint8_t { kAllReduce = 0, kBroadcast = 1, kPingPong = 2 };

struct CallDescription {
  int64_t sequence = 0;  // of this rank's calls, from 0
  int64_t count = 0;
  int64_t tile_bytes = 0;
  int32_t root = -1;  // -1: the operation has none
  int32_t channels = 1;
  Operation operation = Operation::kAllReduce;
  Dtype dtype = Dtype::kF32;
  ReduceOp op = ReduceOp::kSum;
  Algorithm algorithm = Algorithm::kRing;
  int32_t servers = 0;  // the last so many ranks only sum

  friend bool operator==(const CallDescription& a, const CallDescription& b) {
    return a.sequence == b.sequence && a.SameBut(b);
  }
  // Equal but for the sequence number.
  bool SameBut(const CallDescription& other) const {
    return count == other.count && tile_bytes == other.tile_bytes && root == other.root &&
           channels == other.channels && operation == other.operation && dtype == other.dtype &&
           op == other.op && algorithm == other.algorithm && servers == other.servers;
  }
};
static_assert(sizeof(CallDescription) == 40);
static_assert(std::has_unique_object_representations_v<CallDescription>);  // hashed as bytes

// Is this rank part of the call at all? A ping-pong is between ranks 0 and 1.
bool TakesPart(const CallDescription& call, int rank);

uint64_t FingerprintOf(const CallDescription& call);

// "all_reduce #3 (f32 sum, count 1024, ring, 2 channels, tiles of 1048576 bytes)". Safe for values
// from the network.
std::string ToString(const CallDescription& call);

}  // namespace lockstep
