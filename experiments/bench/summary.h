// summary.h: what the cells of one run say together: ours against each peer, both at their best
// setting for the size; the size from which ring beats tree; the share of what memory allows. Pure.
#pragma once

#include <vector>

#include "experiments/bench/cell.h"
#include "proto/bench.pb.h"

namespace lockstep {

// For every (link, ranks, bytes) where both ran: the cell with the least p50 of each side, whatever
// its algorithm and setting; the ratio peer / ours round by round, its median and the interval of
// statistics.h. Gloo has no shared memory: its TCP stands beside our TCP alone.
std::vector<BenchComparison> Compare(const std::vector<Cell>& cells);

// Over the sizes of each (link, ranks, peer).
std::vector<BenchGeomean> Geomeans(const std::vector<BenchComparison>& comparisons);

// The least measured size from which, at it and every larger one, `large` was not slower. nullopt:
// not at the largest size, or one of the two did not run.
std::optional<int64_t> MeasuredCrossing(const std::vector<Cell>& cells, const std::string& link,
                                        int ranks, const std::string& small,
                                        const std::string& large);

// From this size on memory and not the nearest caches set the pace: a roof takes part.
inline constexpr int64_t kFloorBytesMin = int64_t{64} << 20;

// Ours over shared memory at its best, at two ranks and the largest size, beside the roof of the
// same rounds: as many ranks, bound alike, that read and write as many bytes of their own memory at
// once. Their median speed gives the floor; the share is the median over rounds. nullopt: one of
// the two did not run.
std::optional<BenchFloor> FloorOf(const std::vector<Cell>& cells);

}  // namespace lockstep
