// verify.h: runs a schedule on an abstract machine with finite slots and says what is wrong with
// it. A value is a set of contributions (rank, chunk), so the machine sees what a sum of numbers
// would hide: a contribution folded twice, two different chunks folded, a value that is empty.
// Lanes of one rank that touch a chunk unordered by moves, waits and messages are a race (vector
// clocks). One order of execution decides everything else: each connection end has one owner, so no
// other order can reach another result. Cost: O(moves x contributors / 64), plus O(moves x lanes)
// for clocks where a rank has several lanes. Pure: no I/O, no threads, no clock.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allreduce/schedule/algorithm.h"
#include "allreduce/schedule/schedule.h"

namespace lockstep {

// What a collective starts from and must end with, per rank and data chunk; 1 means yes. The final
// value of a wanted chunk is the sum over every rank that holds it at the start, each exactly once.
struct Goal {
  std::vector<std::vector<uint8_t>> holds;  // [rank][chunk]: has a contribution at the start
  std::vector<std::vector<uint8_t>> wants;  // [rank][chunk]: must have the final value at the end
  bool meets = false;  // no rank may be through before every rank has made its first move
};
Goal AllReduceGoal(const Schedule& schedule);                // contributors hold and want all
Goal BroadcastGoal(const Schedule& schedule, int32_t root);  // root holds all, all want all

// Reduce: all hold all, root wants all. Reduce-scatter: all hold all, rank r wants part r, which is
// chunk r of each n. All-gather: rank r holds part r, all want all. Barrier: the ranks meet.
// Errors: InvalidArgument if root is no rank, or the chunks are no multiple of n where there are
// parts.
absl::StatusOr<Goal> GoalOf(Collective collective, const Schedule& schedule, int32_t root = 0);

enum class Fault : uint8_t {
  kMalformed,        // an index out of range, two lanes at one end of a connection or one scratch
  kDoubleCount,      // a contribution folded into a sum that has it already
  kDifferentChunks,  // folded together, or written where another chunk (of another size) belongs
  kEmptyValue,       // a value moved that nothing has been written to
  kSizeMismatch,     // a receive of another number of chunks than were sent
  kDeadlock,         // lanes that wait for each other, or for what nobody sends
  kUnreadMessage,    // a message that nobody received
  kWrongFinalValue,  // a wanted chunk that isn't the sum it should be
  kRace,             // two lanes of a rank at one chunk, at least one writing, in no order
  kEarlyEnd,         // where ranks should meet: one may be through before another has come
};
const char* NameOf(Fault fault);  // "double count", "deadlock", ...

struct Finding {
  Fault fault = Fault::kMalformed;
  int32_t rank = kNone;
  int32_t lane = kNone;
  int32_t move = kNone;
  std::string what;
};

inline constexpr int32_t kFindingsMax = 16;  // the first faults explain the rest

struct VerifyReport {
  std::vector<Finding> findings;  // in the order met, at most kFindingsMax
  void Add(Finding finding);
  bool Has(Fault fault) const;
  // OK, or FailedPrecondition with one line per finding: "deadlock: rank 0 lane 0 move 1: ...".
  absl::Status ToStatus() const;
};

VerifyReport Verify(const Schedule& schedule, const Goal& goal);

}  // namespace lockstep
