// call_table.h: what each rank has called, a line a rank, for the text of a mismatch (CASES R02).
// Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "allreduce/host/failure.h"

namespace lockstep {

// Each line begins with a line break: "\n  rank 0: all_reduce #5 (...)", and the first rank whose
// call is not that of most has ">" instead of the first blank. Ranks without a report say so. At
// most 64 lines and the marked one; the others are counted.
std::string CallTable(const std::vector<std::optional<FailureReport>>& reports);

}  // namespace lockstep
