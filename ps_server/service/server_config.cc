#include "ps_server/service/server_config.h"

#include <algorithm>
#include <vector>

#include "base/member/limits_proto.h"
#include "base/status.h"
#include "ps_server/wire/rules_from_spec.h"

namespace lockstep {
namespace {

std::vector<int32_t> OrderOf(const ShardChain& chain) {
  std::vector<int32_t> order(chain.server().begin(), chain.server().end());
  order.insert(order.end(), chain.joining().begin(), chain.joining().end());
  return order;
}

void TakePlace(const ShardChain& chain, int64_t epoch, bool aggregated, PsServerConfig* config) {
  const std::vector<int32_t> order = OrderOf(chain);
  const auto self = std::find(order.begin(), order.end(), config->server);
  if (self == order.end()) return;
  ChainPlace place;
  place.epoch = epoch;
  place.head = self == order.begin();
  place.joins = self - order.begin() >= chain.server_size();
  place.aggregated = aggregated;
  if (!place.head) place.predecessor = *std::prev(self);
  if (const auto next = std::next(self); next != order.end()) {
    place.successor = *next;
    place.successor_joins = next - order.begin() >= chain.server_size();
  }
  config->places[chain.shard()] = place;
}

absl::Status TakeMembers(const Start& start, PsServerConfig* config) {
  config->present.assign(static_cast<size_t>(config->world_size), false);
  for (const MemberInfo& member : start.member()) {
    if (member.role() == WORKER && member.index() >= 0 && member.index() < config->world_size) {
      config->present[static_cast<size_t>(member.index())] = true;
    }
    if (member.role() != SERVER) continue;
    ASSIGN_OR_RETURN(config->successors[member.index()], ParseEndpoint(member.endpoint()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PsServerConfig> ServerConfigFrom(const Start& start, int index) {
  const RunConfig& run = start.run();
  const Ps& ps = run.variant().ps();
  PsServerConfig config;
  config.server = index;
  config.servers = run.servers();
  config.world_size = run.world_size();
  config.epoch = start.epoch();
  config.limits = LimitsFrom(run.experiment().limits());
  config.restore = start.restore();
  ASSIGN_OR_RETURN(config.rules, PsRulesFrom(run));
  config.placement = PsPlacementFrom(run);
  RETURN_IF_ERROR(TakeMembers(start, &config));
  const bool chained = ps.policy() == Ps::CHAIN;
  for (const ShardChain& chain : start.chain()) {
    TakePlace(chain, start.epoch(), ps.aggregated(), &config);
    const bool mine = chain.server_size() > 0 && chain.server(0) == index;
    const int copies = chain.server_size() + chain.joining_size();
    config.exposed = config.exposed || (chained && mine && copies < ps.replicas() + 1);
  }
  // A chain may have snapshots too, for what it does not survive.
  const bool saved = ps.policy() == Ps::SNAPSHOT || (chained && ps.has_snapshot_every());
  if (saved) config.snapshot_every = ps.snapshot_every();
  return config;
}

MemberEvent CaughtUpEvent(int64_t epoch, const CopyJoined& joined) {
  MemberEvent event;
  CaughtUp* caught_up = event.mutable_caught_up();
  caught_up->set_epoch(epoch);
  caught_up->set_shard(joined.shard);
  caught_up->set_server(joined.server);
  caught_up->set_bytes(joined.state_bytes);
  return event;
}

std::vector<int32_t> RestoredShards(const Start& start, int index) {
  std::vector<int32_t> shards;
  for (const ShardChain& chain : start.chain()) {
    const auto& servers = chain.server();
    if (std::find(servers.begin(), servers.end(), index) != servers.end()) {
      shards.push_back(chain.shard());
    }
  }
  return shards;
}

}  // namespace lockstep
