// chains.h: which servers have a copy of which shard, and in what order, as plain data and pure
// functions. Shard i begins at servers i, i + 1, ..., i + replicas (mod servers): the head takes
// the workers' frames, the tail has the last word. A new epoch keeps the copies that survived in
// their old order, so that the first of them, the new head, has every update that was acknowledged
// (ps_server/core/replication.h, invariant 2), and puts the servers of the shard's own place that
// lack a copy behind the tail: they join, are sent the state, and are no copies until the chain
// says that they have caught up. A shard without a surviving copy is lost. Without replicas each
// chain is one server. Pure: no I/O, no clock. Paper: van Renesse and Schneider, Chain Replication,
// OSDI 2004, section 3.3.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <vector>

namespace lockstep {

struct Chain {
  std::vector<int> servers;  // with the whole state; the head first, the tail last
  std::vector<int> joining;  // behind the tail, in order

  bool operator==(const Chain&) const = default;
};
using Chains = std::vector<Chain>;  // [shard]

// REQUIRES: 0 <= replicas < servers.
Chains InitialChains(int servers, int replicas);

// Of the next epoch, whose servers are `present`. `has(server, shard)`: that process of the server
// has the whole state of the shard. A chain without servers is a lost shard's; nothing joins it.
// REQUIRES: `before` has as many shards as there are servers.
Chains NextChains(const Chains& before, int replicas, const std::set<int>& present,
                  const std::function<bool(int server, int shard)>& has);

// Every shard as in its first epoch: one server takes it from its snapshot, the others join.
Chains RestoredChains(int servers, int replicas);

// Shards whose chain has no server.
std::vector<int> LostShards(const Chains& chains);

// The servers that were told to join and have caught up since the epoch began.
class CatchUp {
 public:
  // False: nothing is to be caught up there.
  bool Add(int shard, int server, Chains* chains);
  void Clear() { caught_.clear(); }

 private:
  std::map<int, std::set<int>> caught_;  // [shard]: servers whose predecessor joins as well
};

// Every chain has replicas + 1 servers that have the whole state.
bool Complete(const Chains& chains, int replicas);

}  // namespace lockstep
