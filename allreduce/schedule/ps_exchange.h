// ps_exchange.h: all-reduce by a parameter server's exchange: every worker pushes each chunk to the
// rank that owns it, which sums and answers with the result. Ranks [0, workers) are the workers.
// Who owns (n workers, s servers, S bytes):
//   spare: the s ranks after the workers, one chunk each, and they have no input. A worker sends
//   and
//     receives S bytes in s messages per channel, a server n/s S in n. Wins with spare machines:
//     n/s S on the busiest link against the ring's 2(n-1)/n S, so from s = n^2/(2(n-1)) on.
//   colocated: the first s workers, one chunk each. A worker that owns sends and receives (1 +
//     (n-2)/s) S, another S. With s = n that is the ring's 2(n-1)/n S in 2 rounds instead of
//     2(n-1): the two-shot exchange (direct.h).
//   split: the s <= n ranks after the workers own 2(n-1) chunks each and the workers n-s each, of
//     n^2 + ns - 2s (all divided by their greatest common divisor), so that all links carry
//     2n(n-1)/(n^2 + ns - 2s) S. Wins over both with 0 < s < n: many tiles take the time of those
//     bytes, since lanes to servers and lanes among workers go on without each other.
// Sums are in rank order, which gives the bits of the naive exchange. Depth: 2 messages. Lanes,
// order, scratch and slots: owner_exchange.h. Link channels: split has 2 per channel. Errors:
// InvalidArgument if a field is < 1 (servers < 0 in split), channels > kChannelsMax (half of it in
// split), or servers > workers where workers own; ResourceExhausted if the chunks of split don't
// fit. Pure: no I/O, no threads, no clock. Paper: Li et al., OSDI 2014; Jiang et al. (BytePS), OSDI
// 2020.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "allreduce/schedule/algorithm.h"
#include "allreduce/schedule/schedule.h"

namespace lockstep {

struct PsExchangeSpec {
  int32_t workers = 1;
  int32_t servers = 1;
  int32_t channels = 1;
  Placement placement = Placement::kSpare;
};

absl::StatusOr<Shape> PsExchangeShape(const PsExchangeSpec& spec);
absl::StatusOr<Schedule> MakePsExchange(const PsExchangeSpec& spec);

// One rank's lanes alone. REQUIRES: spec valid, rank one of the workers or (unless colocated) of
// the servers after them.
std::vector<Lane> PsExchangeLanes(const PsExchangeSpec& spec, int32_t rank);

}  // namespace lockstep
