#include "allreduce/schedule/halving_doubling.h"

#include "allreduce/schedule/assemble.h"
#include "allreduce/schedule/fit.h"
#include "allreduce/schedule/fold_in.h"
#include "base/check.h"

namespace lockstep {
namespace {

// One exchange of halves: chunks [kept, kept + count) stay, [given, given + count) are the
// partner's.
struct Halving {
  int32_t partner = kNone;
  int32_t kept = 0;
  int32_t given = 0;
  int16_t count = 1;
};

std::vector<Halving> HalvingsOf(const FoldIn& fold_in, int32_t position, int32_t first) {
  std::vector<Halving> halvings;
  int32_t count = fold_in.positions;
  for (int32_t distance = 1; distance < fold_in.positions; distance *= 2) {
    count /= 2;
    const bool upper = (position & distance) != 0;
    halvings.push_back({.partner = fold_in.RankAt(position ^ distance),
                        .kept = upper ? first + count : first,
                        .given = upper ? first : first + count,
                        .count = static_cast<int16_t>(count)});
    first = halvings.back().kept;
  }
  return halvings;
}

std::vector<Move> ExchangeMoves(const FoldIn& fold_in, int32_t position, int32_t first) {
  const std::vector<Halving> halvings = HalvingsOf(fold_in, position, first);
  std::vector<Move> moves;
  for (const Halving& half : halvings) {
    moves.push_back({.send_to = half.partner, .in = half.given, .count = half.count});
    moves.push_back(
        {.recv_from = half.partner, .in = half.kept, .out = half.kept, .count = half.count});
  }
  for (auto half = halvings.rbegin(); half != halvings.rend(); ++half) {
    moves.push_back({.send_to = half->partner, .in = half->kept, .count = half->count});
    moves.push_back({.recv_from = half->partner, .out = half->given, .count = half->count});
  }
  return moves;
}

std::vector<Move> MovesOf(const FoldIn& fold_in, int32_t rank, int32_t first) {
  const auto all = static_cast<int16_t>(fold_in.positions);
  const int32_t partner = fold_in.PartnerOf(rank);
  if (fold_in.IsFolded(rank)) {
    return {{.send_to = partner, .in = first, .count = all},
            {.recv_from = partner, .out = first, .count = all}};
  }
  std::vector<Move> moves = ExchangeMoves(fold_in, fold_in.PositionOf(rank), first);
  if (partner == kNone) return moves;
  moves.insert(moves.begin(), {.recv_from = partner, .in = first, .out = first, .count = all});
  moves.push_back({.send_to = partner, .in = first, .count = all});
  return moves;
}

}  // namespace

std::vector<Lane> HalvingDoublingLanes(const HalvingDoublingSpec& spec, int32_t rank) {
  CHECK(rank >= 0 && rank < spec.world_size) << "rank " << rank << " of " << spec.world_size;
  const FoldIn fold_in(spec.world_size);
  std::vector<Lane> lanes;
  lanes.reserve(static_cast<size_t>(spec.channels));
  for (int32_t channel = 0; channel < spec.channels; ++channel) {
    lanes.push_back({channel, MovesOf(fold_in, rank, channel * fold_in.positions)});
  }
  return lanes;
}

absl::StatusOr<Shape> HalvingDoublingShape(const HalvingDoublingSpec& spec) {
  RETURN_IF_ERROR(CheckWorld("halving_doubling", spec.world_size, spec.channels));
  const FoldIn fold_in(spec.world_size);
  const int64_t chunks = int64_t{fold_in.positions} * spec.channels;
  const int32_t longest = fold_in.folded > 0 ? fold_in.positions : fold_in.positions / 2;
  RETURN_IF_ERROR(CheckFits("halving_doubling", chunks, longest));
  return Shape{.world_size = spec.world_size,
               .contributors = spec.world_size,
               .chunks = static_cast<int32_t>(chunks),
               .slots = 2};  // works with one; two let a tile arrive while the last one is summed
}

absl::StatusOr<Schedule> MakeHalvingDoubling(const HalvingDoublingSpec& spec) {
  return Assemble<HalvingDoublingSpec>({HalvingDoublingShape, HalvingDoublingLanes}, spec);
}

}  // namespace lockstep
