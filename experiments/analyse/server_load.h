// server_load.h: what each parameter server did, shard by shard and second by second, out of its
// records. A push's way through a shard is: receiving (first chunk to last), waiting (for others,
// and for the shard), applying, replicating, sending of the reply (handed to gRPC until it has
// taken the last chunk): the counts of these are means over the second, so that they say at once
// how long each queue was. What SYNC applies block by block while pushes are received is spread
// over that time. Bytes are spread evenly over the time in which they came or went; CPU
// time, which a server counts between two updates, over that time. Seconds count from the run's
// first step; what came before (start-up) belongs to no update. Steps that were taken back by a
// restore are left out. Bounds: kSecondsMax, what is later counts with the last one. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "experiments/analyse/run_record.h"
#include "proto/record.pb.h"

namespace lockstep {

inline constexpr int64_t kSecondsMax = 100'000;
inline constexpr int kSecondsShown = 240;  // in the run file, by wider windows in longer runs

// One window of a shard at its server.
struct ServerLoad {
  int32_t server = 0;
  int32_t shard = 0;
  int64_t window = 0;
  double in_bytes = 0;           // pushes and pulls
  double out_bytes = 0;          // parameters
  double replication_bytes = 0;  // CHAIN: to and from other servers
  double receiving = 0;          // mean number of pushes
  double waiting = 0;            // likewise
  double applying = 0;           // share of the time: fold and optimizer, early blocks included
  double replicating = 0;        // mean number of updates that wait for the tail's word
  double sending = 0;            // mean number of replies
  double cpu = 0;           // processors that the whole process used until this shard's updates
  double wait_ms = 0;       // mean of the pushes applied then, from whole to applied
  double staged_bytes = 0;  // most at any update
  int64_t updates = 0;
  int64_t pushes = 0;  // of these updates
  int64_t duplicates = 0;
  int64_t rejected = 0;
};

// By server, shard and window, without gaps from window 0 to the run's last one. Of a run without a
// worker's step: none.
std::vector<ServerLoad> ServerLoadOf(const RunRecord& run, int64_t window_ns);

// servers.csv: a row a variant, block, seed, server, shard and second; units in the column names.
std::string ServersToCsv(const std::vector<RunRecord>& runs);
absl::Status WriteServersCsv(const std::string& path, const std::vector<RunRecord>& runs);

// Of the first of these runs, each server's shards together, for the run file: windows that it
// filled, or its only one.
void AggregateServerLoad(const std::vector<const RunRecord*>& runs, VariantResult* result);

}  // namespace lockstep
