// server_config.h: what a Start tells one server: the rules, its places in the chains, who is
// there. Errors: InvalidArgument (numbers that make no sense). Pure.
#pragma once

#include "absl/status/statusor.h"
#include "proto/coordinator.pb.h"
#include "ps_server/service/exchange.h"

namespace lockstep {

// Of server `index`; `restored` is left empty: RestoredShards.
absl::StatusOr<PsServerConfig> ServerConfigFrom(const Start& start, int index);
// Shards that this server takes from the snapshot: those places that do not join.
std::vector<int32_t> RestoredShards(const Start& start, int index);
// For the coordinator: a server that joined a chain has caught up.
MemberEvent CaughtUpEvent(int64_t epoch, const CopyJoined& joined);

}  // namespace lockstep
