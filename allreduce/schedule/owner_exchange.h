// owner_exchange.h: every exchange in which each chunk has one owner: contributors push their input
// of a chunk to its owner, which sums it in rank order and answers with the result. Who owns what
// makes it a parameter server on ranks of its own, one beside the workers, a mixture of both, or
// the two-shot all-reduce. What an owner owns is one range of chunks per channel and one message.
// Rank w starts with its own place among the owners and owners answer from their own place on, so
// not all meet at one port. Lanes: per channel one that receives (sums, then results) and one that
// sends (inputs, then answers); both directions of a pair may serve two owners, so one lane has
// them all. In a mixture contributors would wait for each other between two tiles while the servers
// idle: so servers and contributors that own have lanes of their own, those of servers on link
// channel 2c, those among contributors on 2c + 1. Scratch: as much as data if some contributor
// owns. Needs 1 slot per connection: what a lane sends first is received first, whatever follows.
// Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "allreduce/schedule/schedule.h"

namespace lockstep {

struct Ownership {
  // Ranks [0, contributors) bring input and want the result; the first owning_contributors of them
  // own contributor_chunks each.
  int32_t contributors = 1;
  int32_t owning_contributors = 0;
  int32_t contributor_chunks = 1;
  // The `servers` ranks after them own server_chunks each.
  int32_t servers = 0;
  int32_t server_chunks = 1;
  int32_t channels = 1;
  // One half alone leaves the sums with their owners, or starts from them.
  bool pushes = true;
  bool answers = true;

  int32_t owners() const { return owning_contributors + servers; }
  // Both kinds own: two link channels per channel.
  bool is_mixed() const { return owning_contributors > 0 && servers > 0; }
  int64_t chunks_per_channel() const {
    return int64_t{owning_contributors} * contributor_chunks + int64_t{servers} * server_chunks;
  }
};

// REQUIRES: all chunks fit (fit.h), 0 <= rank < contributors + servers, at least one owner.
Shape ShapeOf(const Ownership& ownership);
std::vector<Lane> LanesOf(const Ownership& ownership, int32_t rank);

}  // namespace lockstep
