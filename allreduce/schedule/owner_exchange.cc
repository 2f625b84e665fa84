#include "allreduce/schedule/owner_exchange.h"

#include <algorithm>

#include "allreduce/schedule/rank_order.h"

namespace lockstep {
namespace {

// What a pair of lanes serves: some owners' chunks on one channel.
struct Part {
  Ownership owners;
  int32_t channel = 0;
  int32_t first = 0;    // data chunk
  int32_t scratch = 0;  // scratch chunk of data chunk 0
};

// One rank's moves in it.
class PartMoves {
 public:
  PartMoves(const Part& part, int32_t rank)
      : own_(part.owners), rank_(rank), first_(part.first), scratch_(part.scratch) {}

  // Sums, then results.
  std::vector<Move> Receives() const {
    std::vector<Move> moves;
    if (IsOwner() && own_.pushes) moves = Sums();
    if (!IsContributor() || !own_.answers) return moves;
    // As they come: owner o answers me in round rank - o.
    const int32_t start = std::min(rank_, own_.owners() - 1);
    for (int32_t i = 0; i < own_.owners(); ++i) {
      const Owner owner = OwnerAt((start + own_.owners() - i) % own_.owners());
      if (owner.rank == rank_) continue;
      // Overwrites what was pushed: the answer itself is the proof that the push is through.
      moves.push_back({.recv_from = owner.rank, .out = owner.first, .count = owner.count});
    }
    return moves;
  }

  // Inputs, then answers; the first of these waits for the last addition.
  std::vector<Move> Sends(int8_t receive_lane) const {
    std::vector<Move> moves;
    if (IsContributor() && own_.pushes) {
      for (int32_t i = 0; i < own_.owners(); ++i) {
        const Owner owner = OwnerAt((rank_ + i) % own_.owners());
        if (owner.rank == rank_) continue;
        moves.push_back({.send_to = owner.rank, .in = owner.first, .count = owner.count});
      }
    }
    if (!IsOwner() || !own_.answers) return moves;
    const Owner mine = OwnerAt(Index());
    const auto sums = own_.pushes ? static_cast<int32_t>(Sums().size()) : 0;
    bool first = true;
    for (int32_t i = 0; i < own_.contributors; ++i) {
      const int32_t peer = (rank_ + i) % own_.contributors;
      if (peer == rank_) continue;
      Move move{.send_to = peer, .in = mine.first, .count = mine.count};
      if (first && sums > 0) {
        move.wait_lane = receive_lane;
        move.wait_move = sums - 1;
      }
      first = false;
      moves.push_back(move);
    }
    return moves;
  }

 private:
  struct Owner {
    int32_t rank = 0;
    int32_t first = 0;
    int16_t count = 1;
  };

  bool IsContributor() const { return rank_ < own_.contributors; }
  bool IsOwner() const { return !IsContributor() || rank_ < own_.owning_contributors; }
  // Among the owners.
  int32_t Index() const {
    return IsContributor() ? rank_ : own_.owning_contributors + rank_ - own_.contributors;
  }

  Owner OwnerAt(int32_t index) const {
    if (index < own_.owning_contributors) {
      return {index, first_ + index * own_.contributor_chunks,
              static_cast<int16_t>(own_.contributor_chunks)};
    }
    const int32_t server = index - own_.owning_contributors;
    return {
        own_.contributors + server,
        first_ + own_.owning_contributors * own_.contributor_chunks + server * own_.server_chunks,
        static_cast<int16_t>(own_.server_chunks)};
  }

  std::vector<Move> Sums() const {
    const Owner mine = OwnerAt(Index());
    return SumInRankOrder({.contributors = own_.contributors,
                           .rank = rank_,
                           .first = mine.first,
                           .scratch = scratch_ + mine.first,
                           .count = mine.count});
  }

  const Ownership& own_;
  const int32_t rank_;
  const int32_t first_;
  const int32_t scratch_;
};

// Those that the rank has a part in.
std::vector<Part> PartsOf(const Ownership& ownership, int32_t rank) {
  std::vector<Part> parts;
  const auto scratch = static_cast<int32_t>(ownership.channels * ownership.chunks_per_channel());
  for (int32_t channel = 0; channel < ownership.channels; ++channel) {
    const auto first = static_cast<int32_t>(channel * ownership.chunks_per_channel());
    if (!ownership.is_mixed()) {
      parts.push_back({ownership, channel, first, scratch});
      continue;
    }
    Part servers{ownership, 2 * channel, first, scratch};
    servers.owners.owning_contributors = 0;
    servers.first += ownership.owning_contributors * ownership.contributor_chunks;
    parts.push_back(servers);
    Part among{ownership, 2 * channel + 1, first, scratch};
    among.owners.servers = 0;
    if (rank < ownership.contributors) parts.push_back(among);
  }
  return parts;
}

}  // namespace

std::vector<Lane> LanesOf(const Ownership& ownership, int32_t rank) {
  const std::vector<Part> parts = PartsOf(ownership, rank);
  std::vector<Lane> lanes;
  lanes.reserve(2 * parts.size());
  for (const Part& part : parts) {
    lanes.push_back({part.channel, PartMoves(part, rank).Receives()});
  }
  for (size_t part = 0; part < parts.size(); ++part) {
    const auto receive_lane = static_cast<int8_t>(part);
    lanes.push_back({parts[part].channel, PartMoves(parts[part], rank).Sends(receive_lane)});
  }
  return lanes;
}

Shape ShapeOf(const Ownership& ownership) {
  const auto chunks = static_cast<int32_t>(ownership.chunks_per_channel() * ownership.channels);
  const bool scratch = ownership.pushes && ownership.owning_contributors > 2;
  return Shape{.world_size = ownership.contributors + ownership.servers,
               .contributors = ownership.contributors,
               .chunks = chunks,
               .scratch = scratch ? chunks : 0,
               .slots = 2};  // works with one; two let a tile arrive while the last one is summed
}

}  // namespace lockstep
