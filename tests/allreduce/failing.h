// failing.h: what the tests of failing collectives have in common: a group fails in one way, and
// every rank that is left must say so, soon, in the same words.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "tests/allreduce/group.h"
#include "tests/support/status_matchers.h"

namespace lockstep {

inline constexpr int64_t kExpiryMs = 500;    // where a timeout is expected; answers: a tenth of it
inline constexpr int64_t kPromptMs = 5'000;  // "at once", against one of 10 s, on a busy machine

using GroupCall = std::function<absl::Status(Communicator*)>;

inline absl::Status AllReduceOnes(Communicator* communicator, int64_t count,
                                  Dtype dtype = Dtype::kI64, ReduceOp op = ReduceOp::kSum) {
  std::vector<int64_t> data(static_cast<size_t>(count), 1);
  return communicator->AllReduce(data.data(), count, dtype, op);
}

inline int64_t ElapsedMs(const Clock& clock, int64_t start_ns) {
  return (clock.NowNs() - start_ns) / kNsPerMs;
}

inline void ExpectAll(const std::vector<absl::Status>& statuses, absl::StatusCode code,
                      const std::vector<std::string>& parts) {
  for (size_t rank = 0; rank < statuses.size(); ++rank) {
    for (const std::string& part : parts) {
      EXPECT_THAT(statuses[rank], StatusIs(code, part)) << "rank " << rank;
    }
  }
}

// All but `rank` name it: "missing: rank 2." (DeadlineExceeded) or "lost: rank 2." (Unavailable).
inline void ExpectNamed(const std::vector<absl::Status>& statuses, int rank,
                        absl::StatusCode code) {
  const char* const what = code == absl::StatusCode::kUnavailable ? "lost" : "missing";
  for (int other = 0; other < static_cast<int>(statuses.size()); ++other) {
    if (other == rank) continue;
    const absl::Status& status = statuses[static_cast<size_t>(other)];
    EXPECT_THAT(status, StatusIs(code, absl::StrCat(what, ": rank ", rank, "."))) << other;
    EXPECT_THAT(BlamedBy(status), testing::ElementsAre(absl::StrCat("rank ", rank))) << other;
  }
}

// After one call that all make alike, rank `odd` makes another than the rest: all say so.
struct Difference {
  GroupCall usual;
  int odd = 0;
  GroupCall odd_call;
};
inline void ExpectDifference(const GroupOptions& options, const Difference& difference,
                             std::vector<std::string> parts) {
  RankGroup group(options);
  ExpectAll(
      group.Run([&](int, Communicator& communicator) { return difference.usual(&communicator); }),
      absl::StatusCode::kOk, {""});
  const int64_t start_ns = group.clock().NowNs();
  parts.insert(parts.end(), {"the calls differ: ", absl::StrCat("on rank ", difference.odd)});
  ExpectAll(group.Run([&](int rank, Communicator& communicator) {
    return rank == difference.odd ? difference.odd_call(&communicator)
                                  : difference.usual(&communicator);
  }),
            absl::StatusCode::kInvalidArgument, parts);
  EXPECT_LT(ElapsedMs(group.clock(), start_ns), kPromptMs);
}

// Rank `dying` is killed after so many sends; the others call until they are told. What one of them
// has finished is right, and its next call tells it.
inline void ExpectDeathIsNamed(GroupOptions options, int dying, int sends, const GroupCall& call) {
  constexpr int kCalls = 40;
  options.dying_rank = dying;
  options.dying_sends = sends;
  RankGroup group(options);
  const int64_t start_ns = group.clock().NowNs();
  const std::vector<absl::Status> statuses = group.Run([&](int, Communicator& communicator) {
    absl::Status status;
    for (int i = 0; status.ok() && i < kCalls; ++i) status = call(&communicator);
    return status;
  });
  EXPECT_LT(ElapsedMs(group.clock(), start_ns), kPromptMs);
  ExpectNamed(statuses, dying, absl::StatusCode::kUnavailable);
}

}  // namespace lockstep
