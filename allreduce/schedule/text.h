// text.h: a schedule as text that a person can write, one move per line:
//   ranks 3                     # these lines first; all but ranks and chunks may be left out
//   chunks 3
//   goal all_reduce             # or "goal broadcast from 1", "goal reduce to 1", ...
//   slots 2                     # messages that a connection holds
//   rank 0
//     take chunk 2, send to 1
//     recv from 2, add chunk 1, send to 1
//     recv from 2, add chunk 0, store in chunk 0, send to 1
// A move is a value's way, its parts in this order, each optional: "wait for lane 1 move 4", "recv
// from 2" ("recv 3 chunks from 2" where no place tells how many), "take PLACE" (without a recv) or
// "add PLACE" (with one), "store in PLACE" or "fold into PLACE" (add what PLACE holds, then
// store), "send to 1". A PLACE is "chunk 0", "chunks 4..7", "scratch 0" or "scratch 0..3". "lane 0
// channel 0" begins a rank's next lane; moves before any are of lane 0, channel 0. Moves count from
// 0 in each lane. Further lines: "scratch 3" (default 0), "contributors 2" (default all ranks).
// Syntax alone: whether the moves are right is verify.h's to say. Errors: InvalidArgument with
// line:column, what was expected, what stands there and an example; ResourceExhausted above the
// bounds below. Pure: no I/O, no threads, no clock.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "allreduce/schedule/algorithm.h"
#include "allreduce/schedule/schedule.h"

namespace lockstep {

// What a text may ask for before it has given as many moves: few words must not cost much memory.
inline constexpr int32_t kTextRanksMax = 4096;
inline constexpr int64_t kTextCellsMax = int64_t{1} << 20;  // ranks x (chunks + scratch)
inline constexpr int32_t kTextSlotsMax = 1024;

struct ScheduleText {
  Schedule schedule;
  Collective goal = Collective::kAllReduce;
  int32_t root = 0;                                      // kReduce, kBroadcast
  std::vector<std::vector<std::vector<int32_t>>> lines;  // [rank][lane][move], from 1
};

absl::StatusOr<ScheduleText> ParseSchedule(std::string_view text);

// ParseSchedule gives back what was written. REQUIRES: a schedule within the bounds above and
// without findings of kind kMalformed; every move does something.
std::string WriteSchedule(const Schedule& schedule, Collective goal, int32_t root);

// One move's line, without an indent.
std::string MoveText(const Shape& shape, const Move& move);

}  // namespace lockstep
