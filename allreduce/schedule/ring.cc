#include "allreduce/schedule/ring.h"

#include "absl/strings/str_cat.h"
#include "allreduce/schedule/assemble.h"
#include "base/check.h"

namespace lockstep {
namespace {

constexpr int32_t kRingSlots = 2;  // one message being received, one being sent on

std::vector<Move> RingMoves(int32_t rank, int32_t n, int32_t first) {
  std::vector<Move> moves;
  if (n == 1) return moves;
  const int32_t next = (rank + 1) % n;
  const int32_t prev = (rank + n - 1) % n;
  const auto chunk = [&](int32_t hop) { return first + (rank + 2 * n - hop) % n; };
  moves.push_back({.send_to = next, .in = chunk(1)});
  for (int32_t hop = 2; hop < n; ++hop) {  // reduce-scatter: add mine, pass the sum on
    moves.push_back({.recv_from = prev, .send_to = next, .in = chunk(hop)});
  }
  // Complete here.
  moves.push_back({.recv_from = prev, .send_to = next, .in = chunk(n), .out = chunk(n)});
  for (int32_t hop = 1; hop < n - 1; ++hop) {  // all-gather: keep it, pass it on
    moves.push_back({.recv_from = prev, .send_to = next, .out = chunk(hop)});
  }
  moves.push_back({.recv_from = prev, .out = chunk(n - 1)});
  return moves;
}

}  // namespace

std::vector<Lane> RingLanes(const RingSpec& spec, int32_t rank) {
  CHECK(rank >= 0 && rank < spec.world_size) << "rank " << rank << " of " << spec.world_size;
  std::vector<Lane> lanes;
  lanes.reserve(static_cast<size_t>(spec.channels));
  for (int32_t channel = 0; channel < spec.channels; ++channel) {
    lanes.push_back({channel, RingMoves(rank, spec.world_size, channel * spec.world_size)});
  }
  return lanes;
}

absl::StatusOr<Shape> RingShape(const RingSpec& spec) {
  if (spec.world_size < 1 || spec.channels < 1) {
    return absl::InvalidArgumentError(absl::StrCat("ring: world_size ", spec.world_size,
                                                   " and channels ", spec.channels,
                                                   " must both be at least 1"));
  }
  return Shape{.world_size = spec.world_size,
               .contributors = spec.world_size,
               .chunks = spec.world_size * spec.channels,
               .slots = kRingSlots};
}

absl::StatusOr<Schedule> MakeRing(const RingSpec& spec) {
  return Assemble<RingSpec>({RingShape, RingLanes}, spec);
}

}  // namespace lockstep
