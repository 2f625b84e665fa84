// schedule_rounds.h: what every rank holds after each round of a schedule, as tables for a terminal
// of 80 columns, taken from the machine that verifies it (allreduce/schedule/machine.h). What does
// not fit is left out and said so. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "allreduce/schedule/schedule.h"
#include "allreduce/schedule/verify.h"

namespace lockstep {

inline constexpr int32_t kRoundRanksMax = 16;  // rows of a table
inline constexpr int32_t kRoundTablesMax = 64;

// `elements`: of the data, for the row that says how they are cut into chunks; 0: no such row.
// REQUIRES: Verify finds nothing kMalformed.
std::string RenderRounds(const Schedule& schedule, const Goal& goal, int64_t elements);

}  // namespace lockstep
