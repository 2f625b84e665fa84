// ps_exchange.h: the synchronous parameter server's exchange as a schedule: ranks [0, workers) push
// their inputs, the `servers` ranks after them only sum and send the result back.
// Chunks: one per server and channel; chunk k belongs to server k % servers. A worker sends S bytes
// and receives S, a server nS/s each way (n workers, s servers). Depth: 2 messages, of which a
// server takes and sends n per chunk. Wins with spare machines: n/s S on the busiest link against
// the ring's 2(n-1)/n S, so from s = n^2/(2(n-1)) on. Worker w starts at server w % servers and
// server j answers worker j % workers first, so that not all meet at one port; sums are in rank
// order all the same, which gives the bits of the naive exchange. Lanes: a worker has a push and a
// pull per chunk, a server a sum and an answer per chunk, so tiles overlap. Needs 1 slot per
// connection: a tile is one message on each, and no receive waits for a slot.
// Errors: InvalidArgument if a field is < 1 or channels > kChannelsMax. Pure: no I/O, no threads,
// no clock. Paper: Li et al., OSDI 2014; Jiang et al. (BytePS), OSDI 2020.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "allreduce/schedule/schedule.h"

namespace lockstep {

struct PsExchangeSpec {
  int32_t workers = 1;
  int32_t servers = 1;
  int32_t channels = 1;
};

absl::StatusOr<Shape> PsExchangeShape(const PsExchangeSpec& spec);
absl::StatusOr<Schedule> MakePsExchange(const PsExchangeSpec& spec);

// One rank's lanes alone. REQUIRES: spec valid, 0 <= rank < workers + servers.
std::vector<Lane> PsExchangeLanes(const PsExchangeSpec& spec, int32_t rank);

}  // namespace lockstep
