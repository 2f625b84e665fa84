// load.h: what a schedule makes each rank send and receive, counted move by move. Units: shares of
// S, the bytes of the data (a message of k chunks of C is k/C of S). Every chunk counts alike;
// chunks that differ by one element differ by less than a header. Errors: the generator's. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "allreduce/schedule/generate.h"

namespace lockstep {

struct RankLoad {
  double sent = 0;      // of S
  double received = 0;  // of S
  int64_t sent_messages = 0;
  int64_t received_messages = 0;
};

RankLoad LoadOf(const RankPart& part);

// [rank]. One rank's part at a time: worlds too big to hold are counted too.
absl::StatusOr<std::vector<RankLoad>> LoadsOf(const ScheduleSpec& spec);

}  // namespace lockstep
