// Groups of some ranks over the links of all: rows and columns of a grid, in any order of ranks,
// whose calls never meet, and whose failures are told with the ranks of the whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "tests/allreduce/group.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kExpiryMs = 300;
constexpr int64_t kPromptMs = 5'000;

void ExpectAllOk(const std::vector<absl::Status>& statuses) {
  for (const absl::Status& status : statuses) EXPECT_THAT(status, IsOk());
}

absl::Status Sum(Communicator* communicator, int64_t value, int64_t expected, int64_t count = 101) {
  std::vector<int64_t> data(static_cast<size_t>(count), value);
  RETURN_IF_ERROR(communicator->AllReduce(data.data(), count, Dtype::kI64, ReduceOp::kSum));
  EXPECT_EQ(data, std::vector<int64_t>(static_cast<size_t>(count), expected));
  return absl::OkStatus();
}

// Makes all groups on every rank and returns the rank's own.
absl::StatusOr<std::unique_ptr<Communicator>> MakeGroups(
    Communicator* whole, const std::vector<std::vector<int>>& groups) {
  std::unique_ptr<Communicator> own;
  for (const std::vector<int>& ranks : groups) {
    ASSIGN_OR_RETURN(std::unique_ptr<Communicator> group, whole->Group(ranks));
    const bool is_in = std::find(ranks.begin(), ranks.end(), whole->rank()) != ranks.end();
    EXPECT_EQ(group != nullptr, is_in);
    if (is_in) own = std::move(group);
  }
  return own;
}

struct Grid {
  int rows = 2;
  int columns = 2;
  int ranks() const { return rows * columns; }
  std::vector<std::vector<int>> RowGroups() const {
    std::vector<std::vector<int>> groups(static_cast<size_t>(rows));
    for (int rank = 0; rank < ranks(); ++rank) {
      groups[static_cast<size_t>(rank / columns)].push_back(rank);
    }
    return groups;
  }
  std::vector<std::vector<int>> ColumnGroups() const {
    std::vector<std::vector<int>> groups(static_cast<size_t>(columns));
    for (int rank = 0; rank < ranks(); ++rank) {
      groups[static_cast<size_t>(rank % columns)].push_back(rank);
    }
    return groups;
  }
};

using GridCase = std::tuple<Algorithm, Transport, int>;  // rows x 2 or 3
class GridTest : public testing::TestWithParam<GridCase> {};

// Rows, then columns, then all: the sum of everybody each way.
TEST_P(GridTest, RowsAndColumnsAddUpToAll) {
  const Grid grid{2, std::get<int>(GetParam())};
  GroupOptions options;
  options.n = grid.ranks();
  options.transport = std::get<Transport>(GetParam());
  options.way.algorithm = std::get<Algorithm>(GetParam());
  options.limits.chunk_bytes = 64;
  RankGroup group(options);
  const int64_t all = grid.ranks() * (grid.ranks() - 1) / 2;
  ExpectAllOk(group.Run([&](int rank, Communicator& whole) {
    ASSIGN_OR_RETURN(const auto row, MakeGroups(&whole, grid.RowGroups()));
    ASSIGN_OR_RETURN(const auto column, MakeGroups(&whole, grid.ColumnGroups()));
    EXPECT_EQ(row->rank(), rank % grid.columns);
    EXPECT_EQ(row->world_size(), grid.columns);
    EXPECT_EQ(column->rank(), rank / grid.columns);
    EXPECT_EQ(column->world_size(), grid.rows);
    const int first = rank / grid.columns * grid.columns;
    const int64_t row_sum = grid.columns * first + grid.columns * (grid.columns - 1) / 2;
    for (int round = 0; round < 3; ++round) {
      RETURN_IF_ERROR(Sum(row.get(), rank, row_sum));
      RETURN_IF_ERROR(Sum(column.get(), row_sum, all));
      RETURN_IF_ERROR(Sum(&whole, rank, all));
    }
    return absl::OkStatus();
  }));
}
std::string GridName(const testing::TestParamInfo<GridCase>& info) {
  return absl::StrCat(NameOf(Way{std::get<Algorithm>(info.param)}),
                      NameOf(std::get<Transport>(info.param)), "Columns",
                      std::get<int>(info.param));
}
INSTANTIATE_TEST_SUITE_P(All, GridTest,
                         testing::Combine(testing::Values(Algorithm::kRing, Algorithm::kDoubleTree,
                                                          Algorithm::kHalvingDoubling,
                                                          Algorithm::kHierarchical,
                                                          Algorithm::kAuto),
                                          testing::Values(Transport::kInProcess, Transport::kTcp),
                                          testing::Values(2, 3)),
                         GridName);

TEST(SubgroupTest, RanksAreThoseOfTheListInItsOrder) {
  RankGroup group({5});
  ExpectAllOk(group.Run([&](int rank, Communicator& whole) {
    ASSIGN_OR_RETURN(const auto three, whole.Group({4, 0, 2}));
    if (three == nullptr) return whole.Barrier();
    EXPECT_EQ(three->rank(), rank == 4 ? 0 : rank == 0 ? 1 : 2);
    std::vector<int64_t> data = {-1, -1, -1};
    data[static_cast<size_t>(three->rank())] = rank;
    RETURN_IF_ERROR(three->AllGather(data.data(), 3, Dtype::kI64));
    EXPECT_THAT(data, ElementsAre(4, 0, 2));
    int64_t value = rank;
    RETURN_IF_ERROR(three->Broadcast(&value, 1, Dtype::kI64, 0));
    EXPECT_EQ(value, 4);
    RETURN_IF_ERROR(three->Reduce(&value, 1, Dtype::kI64, ReduceOp::kSum, 2));
    EXPECT_TRUE(three->rank() != 2 || value == 12) << value;
    // A group of the group: ranks 4 and 2 of the whole.
    ASSIGN_OR_RETURN(const auto two, three->Group({0, 2}));
    EXPECT_EQ(two == nullptr, rank == 0);
    if (two != nullptr) RETURN_IF_ERROR(Sum(two.get(), rank, 6));
    return whole.Barrier();
  }));
}

TEST(SubgroupTest, CountsItsOwnTrafficAndLogsItsOwnMessages) {
  RankGroup group({3});
  ExpectAllOk(group.Run([&](int, Communicator& whole) {
    ASSIGN_OR_RETURN(const auto pair, whole.Group({0, 2}));
    RETURN_IF_ERROR(Sum(&whole, 1, 3));
    if (pair == nullptr) return absl::OkStatus();
    MessageLog log(100);
    pair->LogMessages(&log);
    const Traffic before = whole.traffic();
    RETURN_IF_ERROR(Sum(pair.get(), 1, 2, 10));
    EXPECT_EQ(pair->traffic().sent_messages, 2);
    EXPECT_EQ(pair->traffic().sent_bytes, 2 * (40 + 48));
    EXPECT_EQ((whole.traffic() - before).sent_bytes, pair->traffic().sent_bytes);
    EXPECT_EQ(log.Take().size(), 4U);
    return absl::OkStatus();
  }));
}

// The measurement of the whole serves its groups; one that never was measured measures itself.
TEST(SubgroupTest, MeasuresBetweenItsOwnFirstRanks) {
  GroupOptions options;
  options.n = 3;
  options.way.algorithm = Algorithm::kAuto;
  RankGroup group(options);
  ExpectAllOk(group.Run([&](int rank, Communicator& whole) {
    ASSIGN_OR_RETURN(const auto pair, whole.Group({2, 1}));
    if (pair != nullptr) {
      RETURN_IF_ERROR(Sum(pair.get(), rank, 3));
      ASSIGN_OR_RETURN(const std::optional<LinkCost> cost, pair->MeasureLink());
      EXPECT_EQ(cost.has_value(), rank == 2);
    }
    return Sum(&whole, rank, 3);
  }));
}

TEST(SubgroupTest, BadListsAreRefusedOnEveryRank) {
  const std::vector<std::pair<std::vector<int>, const char*>> lists = {
      {{0, 3}, "group: 3 is no rank of 0..2"},
      {{-1}, "group: -1 is no rank of 0..2"},
      {{1, 0, 1}, "group: rank 1 is named twice"},
      {{}, "group: of no ranks"}};
  for (const auto& [list, text] : lists) {
    RankGroup group({3});
    for (const absl::Status& status : group.Run([&, &ranks = list](int, Communicator& whole) {
           return whole.Group(ranks).status();
         })) {
      EXPECT_THAT(status, StatusIs(StatusCode::kInvalidArgument, text));
    }
  }
}

TEST(SubgroupTest, ListsThatDifferAreNamed) {
  RankGroup group({3});
  for (const absl::Status& status : group.Run([](int rank, Communicator&whole) {
         return whole.Group(rank == 1 ? std::vector{0, 1} : std::vector{1, 0}).status();
       })) {
    EXPECT_THAT(status, StatusIs(StatusCode::kInvalidArgument, "the calls differ: group #0"));
    EXPECT_THAT(status, StatusIs(StatusCode::kInvalidArgument, "\n> rank 1: group #0"));
  }
}

// Rank 3 never calls its row: its partner misses it, and the failure ends the whole.
class SubgroupFailureTest : public testing::TestWithParam<Transport> {
 protected:
  static GroupOptions Options(int64_t sync_timeout_ms) {
    return {4, GetParam(), 1, TestLimits(sync_timeout_ms)};
  }
};
std::string TransportName(const testing::TestParamInfo<Transport>& info) {
  return NameOf(info.param);
}
INSTANTIATE_TEST_SUITE_P(All, SubgroupFailureTest,
                         testing::Values(Transport::kInProcess, Transport::kTcp), TransportName);

TEST_P(SubgroupFailureTest, AMissingMemberIsNamedToMembersAndOutsiders) {
  RankGroup group(Options(kExpiryMs));
  const std::vector<absl::Status> statuses = group.Run([](int rank, Communicator& whole) {
    ASSIGN_OR_RETURN(const auto row, MakeGroups(&whole, {{0, 1}, {2, 3}}));
    if (rank == 3) return absl::OkStatus();
    RETURN_IF_ERROR(Sum(row.get(), 1, 2));
    return Sum(&whole, 1, 4);
  });
  EXPECT_THAT(statuses[2], StatusIs(StatusCode::kDeadlineExceeded, "all_reduce #0 of group "));
  for (const int rank : {0, 1, 2}) {
    const absl::Status& status = statuses[static_cast<size_t>(rank)];
    EXPECT_THAT(status, StatusIs(StatusCode::kDeadlineExceeded, "missing: rank 3."));
    EXPECT_THAT(BlamedBy(status), ElementsAre("rank 3"));
  }
}

TEST_P(SubgroupFailureTest, AMismatchAmongMembersIsNamedWithTheirRanksInTheWhole) {
  RankGroup group(Options(10'000));
  const int64_t start_ns = group.clock().NowNs();
  const std::vector<absl::Status> statuses = group.Run([](int rank, Communicator& whole) {
    ASSIGN_OR_RETURN(const auto row, MakeGroups(&whole, {{0, 1}, {2, 3}}));
    absl::Status status = Sum(row.get(), 1, 2, rank == 3 ? 7 : 5);
    return status.ok() ? Sum(&whole, 1, 4) : status;  // the other row's members learn it here
  });
  for (const int rank : {2, 3}) {
    const absl::Status& status = statuses[static_cast<size_t>(rank)];
    EXPECT_THAT(status, StatusIs(StatusCode::kInvalidArgument, "count 5, "));
    EXPECT_THAT(status, StatusIs(StatusCode::kInvalidArgument, "count 7, "));
    EXPECT_THAT(status, StatusIs(StatusCode::kInvalidArgument, "on rank 3"));
  }
  for (const int rank : {0, 1}) {
    const absl::Status& status = statuses[static_cast<size_t>(rank)];
    EXPECT_THAT(status, StatusIs(StatusCode::kInvalidArgument, "all_reduce #0 of group "));
  }
  EXPECT_LT((group.clock().NowNs() - start_ns) / kNsPerMs, kPromptMs);
}

// Rank 1 calls the whole where rank 0 calls their row: the calls meet nowhere, and are told apart.
TEST_P(SubgroupFailureTest, CallsOfTwoGroupsNeverMeet) {
  RankGroup group(Options(kExpiryMs));
  const std::vector<absl::Status> statuses = group.Run([](int rank, Communicator& whole) {
    ASSIGN_OR_RETURN(const auto row, MakeGroups(&whole, {{0, 1}, {2, 3}}));
    if (rank == 0) return Sum(row.get(), 1, 2);
    return Sum(&whole, 1, 4);
  });
  for (const absl::Status& status : statuses) {
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), HasSubstr("all_reduce #0 of group "));
    EXPECT_THAT(std::string(status.message()), HasSubstr("all_reduce #2 ("));
  }
}

TEST_P(SubgroupFailureTest, ALostMemberIsNamedToAll) {
  RankGroup group(Options(10'000));
  const int64_t start_ns = group.clock().NowNs();
  const std::vector<absl::Status> statuses = group.Run([&](int rank, Communicator& whole) {
    absl::StatusOr<std::unique_ptr<Communicator>> row = MakeGroups(&whole, {{0, 1}, {2, 3}});
    RETURN_IF_ERROR(row.status());
    if (rank == 3) {
      row->reset();
      group.Destroy(3);
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(Sum(row->get(), 1, 2));
    return Sum(&whole, 1, 4);
  });
  for (const int rank : {0, 1, 2}) {
    const absl::Status& status = statuses[static_cast<size_t>(rank)];
    EXPECT_THAT(status, StatusIs(StatusCode::kUnavailable, "lost: rank 3."));
    EXPECT_THAT(BlamedBy(status), ElementsAre("rank 3"));
  }
  EXPECT_LT((group.clock().NowNs() - start_ns) / kNsPerMs, kPromptMs);
}

}  // namespace
}  // namespace lockstep
