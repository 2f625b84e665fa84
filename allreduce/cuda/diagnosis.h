// diagnosis.h: why a call failed, from what the blocks of this process's ranks report: a rank that
// others wait for and that waits for nobody itself is the cause. Of a rank of another process
// nobody knows here whether it waits: the line says so. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "allreduce/cuda/call.h"

namespace lockstep::gpu {

struct RankReport {
  int32_t rank = 0;
  Report report;
};

// "" if every block is done. Else one line: "rank 3 did not answer within 500 ms: rank 0 waits for
// its message". Blocks in the order of their ranks, all of a rank of this process.
std::string Diagnose(const std::vector<RankReport>& reports, int64_t timeout_ms);

// The ranks of that line that are to blame; none where all wait for each other.
std::vector<int32_t> BlamedRanks(const std::vector<RankReport>& reports);

}  // namespace lockstep::gpu
