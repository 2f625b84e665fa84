// model.h: the prediction beside the measurement: a schedule simulated on the link as fitted in the
// same run, and the size from which one algorithm overtakes another by the same model. Pure.
#pragma once

#include <optional>
#include <string>

#include "allreduce/schedule/cost.h"
#include "experiments/bench/cell.h"
#include "proto/bench.pb.h"

namespace lockstep {

// What rank 0 of `ranks` says of its link after set-up (protocol.h), and what folding costs, from
// the roof. nullopt: the text is no such thing.
std::optional<CostModel> CostFrom(const std::string& link_text, int ranks, const BenchRoofs& roofs);

// modelled_us and chain, where the row's algorithm is a schedule of messages.
void AddModel(const CostModel& cost, int channels, BenchRow* row);

struct CrossingQuery {
  std::string link;
  int ranks = 2;
  std::string small = "tree";
  std::string large = "ring";
};
// nullopt: one of the two did not run there.
std::optional<BenchCrossing> CrossingOf(const CrossingQuery& query, const std::vector<Cell>& cells,
                                        const std::optional<CostModel>& cost);

}  // namespace lockstep
