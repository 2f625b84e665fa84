// schedule_cost.h: `lockstep schedule cost`: what each way to all-reduce costs on a network that
// the command line describes, by simulation (allreduce/schedule/simulate.h) and, where there is
// one, by formula (cost.h), beside the least that any way costs. Times are modelled, none is
// measured. As tables, or as JSON (proto/cost.proto). Errors: InvalidArgument for bad usage; the
// generators'. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "allreduce/schedule/cost.h"
#include "experiments/analyse/proto_json.h"
#include "experiments/cli/schedule_source.h"

namespace lockstep {

inline constexpr JsonKind kCostJson = {"cost file", "lockstep.cost/1"};

struct CostArguments {
  std::string sizes = "4:64MiB:64";  // as ParseSizes
  double latency_us = 20;
  double overhead_us = 5;
  double gbps = 10;       // 10^9 bits a second in each direction
  double gamma_ns = 0.1;  // per byte that is added
  bool json = false;      // lockstep.cost/1 instead of tables
};

// A way to all-reduce: one schedule, or two, one after the other.
struct CostRow {
  std::string name;
  std::vector<ScheduleSpec> parts;
};
std::vector<CostRow> CostRows(const ScheduleSpec& spec, bool servers_given);

struct RowCost {
  double simulated_ns = 0;
  std::optional<double> formula_ns;
  int64_t messages = 0;
  int64_t chain = 0;
};
absl::StatusOr<RowCost> CostOf(const CostRow& row, const CostModel& cost, int64_t bytes);

absl::StatusOr<std::string> RenderCosts(const ScheduleArguments& arguments,
                                        const CostArguments& costs);

}  // namespace lockstep
