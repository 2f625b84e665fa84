// order.h: which additions make each element of an all-reduce, found by running the schedule on
// symbols. Float addition commutes but does not associate, so the tree of additions decides the
// bits: texts are canonical up to commutativity (of two summands the one with the lower rank stands
// left), and equal texts promise equal bits, also of two algorithms, for the same inputs and dtype.
// Texts: "((g0+g1)+g2)+g3", gr the input of rank r. Cost: O(moves), and O(chunks x contributors)
// for the text. Pure: no I/O, no threads, no clock.
#pragma once

#include <cstdint>
#include <string>

#include "allreduce/schedule/schedule.h"

namespace lockstep {

// Above either bound a text gives way to its fingerprint, "xxh3:<32 digits>, <ranks>, <runs>".
inline constexpr int32_t kOrderRanksMax = 16;
inline constexpr size_t kOrderRunsMax = 256;

// The tree of one chunk. Contributors that end with different trees are named with theirs: "ranks
// disagree: rank 0 g0+g1, rank 1 g0". REQUIRES: Verify finds nothing, or no fault but wrong final
// values; 0 <= chunk < chunks.
std::string AdditionTree(const Schedule& schedule, int32_t chunk);

// The trees of `count` elements, first to last, adjacent runs of one tree merged, cut as the
// executor cuts them (the first count % chunks chunks are one element longer): "0-9: g0+(g1+g2);
// 10-18: (g0+g1)+g2". Empty for no elements. REQUIRES: as AdditionTree.
std::string AdditionOrder(const Schedule& schedule, int64_t count);

// The same for a sum in rank order, ((g0+g1)+g2)+..., which is what a parameter server adds.
std::string RankOrder(int32_t n, int64_t count);

}  // namespace lockstep
