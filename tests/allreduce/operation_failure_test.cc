// Failing operations beside the all-reduce (way_failure_test.cc): whoever calls something else, is
// missing, dies in the middle or leaves is named on every rank, within the timeout. One source for
// two tiers: all algorithms in full.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/allreduce/failing.h"
#include "tests/allreduce/tier.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using absl::StatusCode;

constexpr int kRanks = 4;

struct Arguments {
  int64_t count = 1'500;
  int root = 0;
  ReduceOp op = ReduceOp::kSum;
};

// An operation with all that its ranks must agree on.
struct NamedOperation {
  const char* name;
  const char* text;  // in descriptions
  bool has_count;
  bool has_root;
  bool reduces;
  absl::Status (*call)(Communicator*, const Arguments&, int64_t* data);
};
void PrintTo(const NamedOperation& operation, std::ostream* out) { *out << operation.name; }

constexpr std::array<NamedOperation, 5> kOperations = {{
    {"Reduce", "reduce", true, true, true,
     [](Communicator* c, const Arguments& with, int64_t* data) {
       return c->Reduce(data, with.count, Dtype::kI64, with.op, with.root);
     }},
    {"Broadcast", "broadcast", true, true, false,
     [](Communicator* c, const Arguments& with, int64_t* data) {
       return c->Broadcast(data, with.count, Dtype::kI64, with.root);
     }},
    {"ReduceScatter", "reduce_scatter", true, false, true,
     [](Communicator* c, const Arguments& with, int64_t* data) {
       return c->ReduceScatter(data, with.count, Dtype::kI64, with.op);
     }},
    {"AllGather", "all_gather", true, false, false,
     [](Communicator* c, const Arguments& with, int64_t* data) {
       return c->AllGather(data, with.count, Dtype::kI64);
     }},
    {"Barrier", "barrier", false, false, false,
     [](Communicator* c, const Arguments&, int64_t*) { return c->Barrier(); }},
}};

class OperationFailureTest : public testing::TestWithParam<std::tuple<Way, NamedOperation>> {
 protected:
  const NamedOperation& operation() const { return std::get<NamedOperation>(GetParam()); }
  GroupOptions Options(int64_t sync_timeout_ms) const {
    GroupOptions options = OptionsOf(std::get<Way>(GetParam()), kRanks);
    options.limits = TestLimits(sync_timeout_ms);
    options.limits.chunk_bytes = 1'000;
    return options;
  }
  absl::Status Call(Communicator* communicator, const Arguments& with) const {
    std::vector<int64_t> data(static_cast<size_t>(with.count), 1);
    return operation().call(communicator, with, data.data());
  }

  // In its second call rank `odd` does something else than the others.
  void ExpectOdd(int odd, const GroupCall& odd_call, const std::string& usual_text,
                 const std::string& odd_text) const {
    const GroupCall usual = [this](Communicator* communicator) { return Call(communicator, {}); };
    ExpectDifference(Options(kExpiryMs), {usual, odd, odd_call},
                     {absl::StrCat(operation().text, " #1"), usual_text, odd_text,
                      absl::StrCat("\n> rank ", odd, ": ")});
  }
};

// CASES R01.
TEST_P(OperationFailureTest, ADifferentCountIsNamedWithItsRank) {
  if (!operation().has_count) return;
  for (const int odd : {1, kRanks - 1}) {
    ExpectOdd(
        odd, [&](Communicator* c) { return Call(c, {.count = 3'000}); }, "count 1500,",
        "count 3000,");
  }
}

TEST_P(OperationFailureTest, ADifferentRootIsNamedWithItsRank) {
  if (!operation().has_root) return;
  ExpectOdd(
      2, [&](Communicator* c) { return Call(c, {.root = 1}); }, " root 0,", " root 1,");
}

TEST_P(OperationFailureTest, ADifferentReductionIsNamedWithItsRank) {
  if (!operation().reduces) return;
  ExpectOdd(
      2, [&](Communicator* c) { return Call(c, {.op = ReduceOp::kMax}); }, "(i64 sum", "(i64 max");
}

// CASES R02.
TEST_P(OperationFailureTest, AnotherOperationIsNamedWithItsRankAndNumber) {
  ExpectOdd(
      3,
      [](Communicator* c) {
        std::vector<int64_t> data(1'500, 1);
        return c->AllReduce(data.data(), 1'500, Dtype::kI64, ReduceOp::kSum);
      },
      absl::StrCat(operation().text, " #1"), "all_reduce #1 (i64 sum, count 1500");
}

// CASES R04. The groups wait for their timeout side by side.
TEST_P(OperationFailureTest, AMissingRankIsNamedByAllOthers) {
  const std::vector<int> all_missing = kFullTier ? std::vector{0, 1, kRanks - 1} : std::vector{1};
  OnEachRank(static_cast<int>(all_missing.size()), [&](int i) {
    const int missing = all_missing[static_cast<size_t>(i)];
    RankGroup group(Options(kExpiryMs));
    const std::vector<absl::Status> statuses = group.Run([&](int rank, Communicator& communicator) {
      return rank == missing ? absl::OkStatus() : Call(&communicator, {});
    });
    ExpectNamed(statuses, missing, StatusCode::kDeadlineExceeded);
  });
}

// CASES R03.
TEST_P(OperationFailureTest, ARankThatDiesInTheMiddleIsNamedByAllSurvivors) {
  for (int dying = 0; dying < kRanks; ++dying) {
    for (const int sends : {1, 4}) {
      ExpectDeathIsNamed(Options(10'000), dying, sends,
                         [this](Communicator* communicator) { return Call(communicator, {}); });
    }
  }
}

// A rank whose program ends well, with exit code 0, but before its last call.
TEST_P(OperationFailureTest, ARankThatLeavesEarlyIsNamedByAllOthers) {
  for (const int leaving : {0, kRanks - 1}) {
    RankGroup group(Options(10'000));
    const int64_t start_ns = group.clock().NowNs();
    const std::vector<absl::Status> statuses = group.Run([&](int rank, Communicator& communicator) {
      absl::Status first = Call(&communicator, {});
      if (!first.ok() || rank != leaving) return first.ok() ? Call(&communicator, {}) : first;
      group.Destroy(rank);
      return first;
    });
    EXPECT_LT(ElapsedMs(group.clock(), start_ns), kPromptMs);
    ExpectNamed(statuses, leaving, StatusCode::kUnavailable);
  }
}

using FailureCase = std::tuple<Way, NamedOperation>;
std::vector<FailureCase> FailureCases() {
  std::vector<FailureCase> cases;
  for (const NamedOperation& operation : kOperations) {
    if (!kFullTier) {
      cases.emplace_back(Way{operation.has_root ? Algorithm::kTree : Algorithm::kDirect},
                         operation);
      continue;
    }
    for (const Way& way : AllWays()) {
      if (way.spare() == 0) cases.emplace_back(way, operation);
    }
  }
  return cases;
}
std::string CaseName(const testing::TestParamInfo<FailureCase>& info) {
  return absl::StrCat(NameOf(std::get<Way>(info.param)), std::get<NamedOperation>(info.param).name);
}
INSTANTIATE_TEST_SUITE_P(All, OperationFailureTest, testing::ValuesIn(FailureCases()), CaseName);

// What no engine takes is refused on every rank before a byte of data is sent.
TEST(RefusedTest, AveragesOfIntegersAreRefusedBeforeAnythingIsSent) {
  for (const Dtype dtype : {Dtype::kI32, Dtype::kI64, Dtype::kU8}) {
    RankGroup group({3});
    for (const absl::Status& status : group.Run([&](int, Communicator& communicator) {
           int64_t value = 1;
           return communicator.AllReduce(&value, 1, dtype, ReduceOp::kAvg);
         })) {
      EXPECT_THAT(status, StatusIs(StatusCode::kInvalidArgument,
                                   absl::StrCat("avg of ", NameOf(dtype), " is not defined; f32")));
    }
    for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(group.at(rank).traffic().sent_bytes, 0);
  }
}

TEST(RefusedTest, ACountBeyondMemoryAndARootOutOfRange) {
  RankGroup counts({2});
  for (const absl::Status& status : counts.Run([](int, Communicator& communicator) {
         return communicator.AllGather(nullptr, int64_t{1} << 61, Dtype::kF64);
       })) {
    EXPECT_THAT(status, StatusIs(StatusCode::kInvalidArgument, "is beyond any memory"));
  }
  RankGroup roots({2});
  for (const absl::Status& status : roots.Run([](int, Communicator& communicator) {
         return communicator.Reduce(nullptr, 0, Dtype::kF32, ReduceOp::kSum, -1);
       })) {
    EXPECT_THAT(status, StatusIs(StatusCode::kInvalidArgument, "root -1 is no rank of 0..1"));
  }
}

}  // namespace
}  // namespace lockstep
