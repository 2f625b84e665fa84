// cost.h: what moving and adding bytes costs, and the closed forms of THEORY C.1-C.3 built on it.
// LogGP's split: a message's sender port is busy for `overhead` plus its bytes and the receiver's
// port as long, `latency` later; alpha = latency + overhead. Ports are full duplex; a rank's
// additions are made one after the other. The theory's tables pay alpha for each message; where a
// rank sends several before it waits, the forms pay L once and o for each, as the machine does
// (naive, star, direct, servers).
// Conditions: one channel (several share ports and adders in ways that have no formula). Chunks
// alike: each of at least 100 elements, or so short that their bytes don't count. A call of more
// than one tile (a chunk longer than tile_bytes) pays the latencies for each tile where a lane goes
// on only when it has got something (ring, halving and recursive doubling, hierarchical, direct);
// where tiles follow each other (trees, chains, stars, servers of their own) it pays the busiest
// port for each, or where that is longer half the time from a send until its slot is free again,
// since connections have two. Split servers have a form for one tile, and for more where latency
// and additions hide behind the servers' messages. Units: nanoseconds, bytes. Pure.
// Papers: Alexandrov et al., LogGP, SPAA 1995; Hockney, Parallel Computing 20(3), 1994; Thakur,
// Rabenseifner, Gropp, IJHPCA 19(1), 2005; Sanders, Speck, Traeff, Parallel Computing 35(12), 2009;
// Jiang et al. (BytePS), OSDI 2020.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "allreduce/schedule/generate.h"

namespace lockstep {

struct CostModel {
  double latency_ns = 0;         // L: the port is free meanwhile
  double overhead_ns = 0;        // o: the port is busy
  double beta_ns_per_byte = 0;   // per direction
  double gamma_ns_per_byte = 0;  // of reduced data
  // Where ranks share cores, what every message and byte costs all of them together, whoever sends
  // it (work.h); 0: a core a rank, as the forms below and simulate.h assume.
  double crowd_message_ns = 0;
  double crowd_ns_per_byte = 0;
  double alpha_ns() const { return latency_ns + overhead_ns; }
};

inline constexpr int64_t kModelTileBytes = int64_t{1} << 20;  // limits.chunk_bytes

struct ClosedForm {
  double time_ns = 0;
  std::string formula;       // "2(n-1)*alpha + 2(n-1)/n*S*beta + (n-1)/n*S*gamma"
  bool approximate = false;  // pieces in a pipeline: within 10 % of simulate.h, else within 1 %
};

// Of `bytes` per rank. nullopt: the theory has no form for this spec.
std::optional<ClosedForm> ClosedFormOf(const ScheduleSpec& spec, const CostModel& cost,
                                       int64_t bytes, int64_t tile_bytes = kModelTileBytes);

// No schedule is faster than the longest of these: what one rank knows reaches all others only so
// fast when each may tell one other each `overhead` (with no overhead in one latency, with no
// latency in ceil(log2 n) overheads); some port must carry so many bytes; some rank must make so
// many additions. Paper: Karp, Sahay, Santos, Schauser, SPAA 1993; Patarasuk, Yuan, JPDC 69(2),
// 2009. REQUIRES: a spec that MakeSchedule accepts.
double LowerBoundNs(const ScheduleSpec& spec, const CostModel& cost, int64_t bytes);

}  // namespace lockstep
