#include "experiments/coordinator/chains.h"

#include <algorithm>
#include <cstddef>

#include "base/check.h"

namespace lockstep {
namespace {

bool Contains(const std::vector<int>& servers, int server) {
  return std::find(servers.begin(), servers.end(), server) != servers.end();
}

}  // namespace

Chains InitialChains(int servers, int replicas) {
  CHECK(replicas >= 0 && replicas < servers) << replicas << " replicas, " << servers << " servers";
  Chains chains(static_cast<size_t>(servers));
  for (int shard = 0; shard < servers; ++shard) {
    for (int i = 0; i <= replicas; ++i) {
      chains[static_cast<size_t>(shard)].servers.push_back((shard + i) % servers);
    }
  }
  return chains;
}

Chains NextChains(const Chains& before, int replicas, const std::set<int>& present,
                  const std::function<bool(int server, int shard)>& has) {
  const int servers = static_cast<int>(before.size());
  Chains chains(before.size());
  for (int shard = 0; shard < servers; ++shard) {
    Chain& chain = chains[static_cast<size_t>(shard)];
    for (const int server : before[static_cast<size_t>(shard)].servers) {
      if (present.contains(server) && has(server, shard)) chain.servers.push_back(server);
    }
    if (chain.servers.empty()) continue;
    for (int i = 0; i <= replicas; ++i) {
      const int server = (shard + i) % servers;
      if (present.contains(server) && !Contains(chain.servers, server)) {
        chain.joining.push_back(server);
      }
    }
  }
  return chains;
}

Chains RestoredChains(int servers, int replicas) {
  Chains chains = InitialChains(servers, replicas);
  for (Chain& chain : chains) {
    chain.joining.assign(chain.servers.begin() + 1, chain.servers.end());
    chain.servers.resize(1);
  }
  return chains;
}

std::vector<int> LostShards(const Chains& chains) {
  std::vector<int> lost;
  for (size_t shard = 0; shard < chains.size(); ++shard) {
    if (chains[shard].servers.empty()) lost.push_back(static_cast<int>(shard));
  }
  return lost;
}

bool CatchUp::Add(int shard, int server, Chains* chains) {
  if (shard < 0 || shard >= static_cast<int>(chains->size())) return false;
  Chain& chain = (*chains)[static_cast<size_t>(shard)];
  if (!Contains(chain.joining, server)) return false;
  std::set<int>& caught = caught_[shard];
  caught.insert(server);
  // One behind another that still joins is not reached by what the head acknowledges.
  while (!chain.joining.empty() && caught.contains(chain.joining.front())) {
    chain.servers.push_back(chain.joining.front());
    chain.joining.erase(chain.joining.begin());
  }
  return true;
}

bool Complete(const Chains& chains, int replicas) {
  return std::all_of(chains.begin(), chains.end(), [&](const Chain& chain) {
    return static_cast<int>(chain.servers.size()) > replicas;
  });
}

}  // namespace lockstep
