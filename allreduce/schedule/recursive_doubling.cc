#include "allreduce/schedule/recursive_doubling.h"

#include "allreduce/schedule/assemble.h"
#include "allreduce/schedule/fit.h"
#include "allreduce/schedule/fold_in.h"
#include "base/check.h"

namespace lockstep {
namespace {

// Each message is added to what the rank has, and the sum goes to the next partner at once.
std::vector<Move> ExchangeMoves(const FoldIn& fold_in, int32_t rank, int32_t chunk) {
  std::vector<int32_t> senders;
  std::vector<int32_t> receivers;
  const int32_t position = fold_in.PositionOf(rank);
  const int32_t folded = fold_in.PartnerOf(rank);
  if (folded != kNone) senders.push_back(folded);
  for (int32_t distance = 1; distance < fold_in.positions; distance *= 2) {
    const int32_t partner = fold_in.RankAt(position ^ distance);
    senders.push_back(partner);
    receivers.push_back(partner);
  }
  if (folded != kNone) receivers.push_back(folded);
  std::vector<Move> moves;
  size_t sent = 0;
  if (folded == kNone && !receivers.empty()) {
    moves.push_back({.send_to = receivers[sent++], .in = chunk});
  }
  for (const int32_t sender : senders) {
    moves.push_back({.recv_from = sender,
                     .send_to = sent < receivers.size() ? receivers[sent++] : kNone,
                     .in = chunk,
                     .out = chunk});
  }
  return moves;
}

}  // namespace

std::vector<Lane> RecursiveDoublingLanes(const RecursiveDoublingSpec& spec, int32_t rank) {
  CHECK(rank >= 0 && rank < spec.world_size) << "rank " << rank << " of " << spec.world_size;
  const FoldIn fold_in(spec.world_size);
  std::vector<Lane> lanes;
  lanes.reserve(static_cast<size_t>(spec.channels));
  for (int32_t channel = 0; channel < spec.channels; ++channel) {
    Lane& lane = lanes.emplace_back(Lane{channel, {}});
    if (fold_in.IsFolded(rank)) {
      const int32_t partner = fold_in.PartnerOf(rank);
      lane.moves = {{.send_to = partner, .in = channel}, {.recv_from = partner, .out = channel}};
    } else {
      lane.moves = ExchangeMoves(fold_in, rank, channel);
    }
  }
  return lanes;
}

absl::StatusOr<Shape> RecursiveDoublingShape(const RecursiveDoublingSpec& spec) {
  RETURN_IF_ERROR(CheckWorld("recursive_doubling", spec.world_size, spec.channels));
  return Shape{.world_size = spec.world_size,
               .contributors = spec.world_size,
               .chunks = spec.channels,
               .slots = 2};  // works with one; two let a tile arrive while the last one is summed
}

absl::StatusOr<Schedule> MakeRecursiveDoubling(const RecursiveDoublingSpec& spec) {
  return Assemble<RecursiveDoublingSpec>({RecursiveDoublingShape, RecursiveDoublingLanes}, spec);
}

}  // namespace lockstep
