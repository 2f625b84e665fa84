// Every operation by every algorithm: results exact to the last element, the average rounded once,
// no rank through before all have called, one rank alone, and the messages of CASES R48.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/numeric/random.h"
#include "base/status.h"
#include "base/sync.h"
#include "tests/allreduce/group.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using absl::StatusCode;
using testing::ElementsAre;

void ExpectAllOk(const std::vector<absl::Status>& statuses) {
  for (const absl::Status& status : statuses) EXPECT_THAT(status, IsOk());
}

int64_t Input(int rank, int64_t i) {
  return static_cast<int64_t>(
      Random(static_cast<uint64_t>(rank), static_cast<uint64_t>(i)).Next() >> 8);
}

std::vector<int64_t> Inputs(int rank, int64_t count) {
  std::vector<int64_t> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) values[static_cast<size_t>(i)] = Input(rank, i);
  return values;
}

std::vector<int64_t> Sums(int inputs, int64_t count) {
  std::vector<int64_t> sums = Inputs(0, count);
  for (int rank = 1; rank < inputs; ++rank) {
    for (int64_t i = 0; i < count; ++i) sums[static_cast<size_t>(i)] += Input(rank, i);
  }
  return sums;
}

std::vector<int64_t> Part(const std::vector<int64_t>& values, const ElementRange& range) {
  return {values.begin() + range.first, values.begin() + range.first + range.count};
}

TEST(PartOfTest, CutsIntoNearlyEqualPartsInOrder) {
  for (const int n : {1, 2, 3, 7, 13}) {
    for (const int64_t count : {0, 1, n - 1, n, 10 * n + 3}) {
      int64_t next = 0;
      for (int rank = 0; rank < n; ++rank) {
        const ElementRange range = PartOf(count, n, rank);
        EXPECT_EQ(range.first, next);
        EXPECT_EQ(range.count, count / n + (rank < count % n ? 1 : 0));
        next += range.count;
      }
      EXPECT_EQ(next, count);
    }
  }
}

// Ways whose ranks all have data: a rank that only sums has no part of a result.
std::vector<Way> FullWays() {
  std::vector<Way> ways;
  for (const Way& way : AllWays()) {
    if (way.spare() == 0) ways.push_back(way);
  }
  return ways;
}

struct OperationCase {
  Way way;
  int n = 1;
  Transport transport = Transport::kInProcess;
  int channels = 1;
};
std::string OperationName(const testing::TestParamInfo<OperationCase>& info) {
  return absl::StrCat(NameOf(info.param.way), NameOf(info.param.transport), "Ranks", info.param.n,
                      "Channels", info.param.channels);
}

class OperationTest : public testing::TestWithParam<OperationCase> {
 protected:
  GroupOptions Options() const {
    GroupOptions options = lockstep::OptionsOf(GetParam().way, GetParam().n);
    options.transport = GetParam().transport;
    options.channels = GetParam().channels;
    options.limits.chunk_bytes = 64;  // tiles loop
    return options;
  }
  std::vector<int64_t> Counts() const {
    const int n = GetParam().n;
    return {0, 1, n - 1, n, 10 * n + 3};
  }
};

TEST_P(OperationTest, ReduceGivesTheRootTheSum) {
  RankGroup group(Options());
  ExpectAllOk(group.Run([&](int rank, Communicator& communicator) {
    for (const int64_t count : Counts()) {
      for (int root = 0; root < group.n(); ++root) {
        std::vector<int64_t> data = Inputs(rank, count);
        RETURN_IF_ERROR(communicator.Reduce(data.data(), count, Dtype::kI64, ReduceOp::kSum, root));
        EXPECT_TRUE(rank != root || data == Sums(group.n(), count)) << "root " << root;
      }
    }
    return absl::OkStatus();
  }));
}

TEST_P(OperationTest, ReduceScatterGivesEachRankItsPart) {
  RankGroup group(Options());
  ExpectAllOk(group.Run([&](int rank, Communicator& communicator) {
    for (const int64_t count : Counts()) {
      std::vector<int64_t> data = Inputs(rank, count);
      RETURN_IF_ERROR(communicator.ReduceScatter(data.data(), count, Dtype::kI64, ReduceOp::kSum));
      const ElementRange range = PartOf(count, group.n(), rank);
      EXPECT_EQ(Part(data, range), Part(Sums(group.n(), count), range)) << count;
    }
    return absl::OkStatus();
  }));
}

TEST_P(OperationTest, AllGatherGivesEveryRankAllParts) {
  RankGroup group(Options());
  ExpectAllOk(group.Run([&](int rank, Communicator& communicator) {
    for (const int64_t count : Counts()) {
      std::vector<int64_t> expected(static_cast<size_t>(count));
      std::vector<int64_t> data(static_cast<size_t>(count), -1);
      for (int owner = 0; owner < group.n(); ++owner) {
        const ElementRange range = PartOf(count, group.n(), owner);
        for (int64_t i = range.first; i < range.first + range.count; ++i) {
          expected[static_cast<size_t>(i)] = Input(owner, i);
          if (owner == rank) data[static_cast<size_t>(i)] = Input(owner, i);
        }
      }
      RETURN_IF_ERROR(communicator.AllGather(data.data(), count, Dtype::kI64));
      EXPECT_EQ(data, expected);
    }
    return absl::OkStatus();
  }));
}

TEST_P(OperationTest, HalvesMakeAnAllReduce) {
  RankGroup group(Options());
  ExpectAllOk(group.Run([&](int rank, Communicator& communicator) {
    std::vector<int64_t> data = Inputs(rank, 101);
    RETURN_IF_ERROR(communicator.Barrier());
    RETURN_IF_ERROR(communicator.ReduceScatter(data.data(), 101, Dtype::kI64, ReduceOp::kSum));
    RETURN_IF_ERROR(communicator.AllGather(data.data(), 101, Dtype::kI64));
    EXPECT_EQ(data, Sums(group.n(), 101));
    return absl::OkStatus();
  }));
}

// CASES R16: the sum divided once, where there is a result.
TEST_P(OperationTest, AveragesAreSumsDividedOnce) {
  RankGroup group(Options());
  const int n = group.n();
  const float mean = static_cast<float>(n + 1) / 2;  // of 1, 2, ..., n
  ExpectAllOk(group.Run([&](int rank, Communicator& communicator) {
    const std::vector<float> mine(11, static_cast<float>(rank + 1));
    std::vector<float> data = mine;
    RETURN_IF_ERROR(communicator.AllReduce(data.data(), 11, Dtype::kF32, ReduceOp::kAvg));
    EXPECT_EQ(data, std::vector<float>(11, mean));
    data = mine;
    RETURN_IF_ERROR(communicator.Reduce(data.data(), 11, Dtype::kF32, ReduceOp::kAvg, n - 1));
    EXPECT_TRUE(rank != n - 1 || data == std::vector<float>(11, mean));
    data = mine;
    RETURN_IF_ERROR(communicator.ReduceScatter(data.data(), 11, Dtype::kF32, ReduceOp::kAvg));
    const ElementRange range = PartOf(11, n, rank);
    for (int64_t i = range.first; i < range.first + range.count; ++i) {
      EXPECT_EQ(data[static_cast<size_t>(i)], mean);
    }
    return absl::OkStatus();
  }));
}

std::vector<OperationCase> OperationCases() {
  std::vector<OperationCase> cases;
  for (const Way& way : FullWays()) {
    for (const int n : {1, 2, 3, 5}) cases.push_back({way, n});
    cases.push_back({way, 4, Transport::kInProcess, 3});
    cases.push_back({way, 3, Transport::kTcp, 2});
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(All, OperationTest, testing::ValuesIn(OperationCases()), OperationName);

// Servers that only sum divide nothing: contributors count.
TEST(AverageTest, DividesByTheContributors) {
  RankGroup group(OptionsOf({Algorithm::kPsExchange, 2}, 4));
  ExpectAllOk(group.Run([&](int rank, Communicator& communicator) {
    double value = rank + 1;
    RETURN_IF_ERROR(communicator.AllReduce(&value, 1, Dtype::kF64, ReduceOp::kAvg));
    EXPECT_TRUE(rank >= 4 || value == 2.5) << value;
    return absl::OkStatus();
  }));
}

using OperationCall = absl::Status (*)(Communicator*, std::vector<int64_t>*);
struct NamedOperation {
  const char* name;
  OperationCall call;
};
void PrintTo(const NamedOperation& operation, std::ostream* out) { *out << operation.name; }
constexpr std::array<NamedOperation, 8> kOperations = {{
    {"AllReduce",
     [](Communicator* c, std::vector<int64_t>* data) {
       return c->AllReduce(data->data(), 7, Dtype::kI64, ReduceOp::kSum);
     }},
    {"Reduce",
     [](Communicator* c, std::vector<int64_t>* data) {
       return c->Reduce(data->data(), 7, Dtype::kI64, ReduceOp::kSum, 0);
     }},
    {"Broadcast",
     [](Communicator* c, std::vector<int64_t>* data) {
       return c->Broadcast(data->data(), 7, Dtype::kI64, 0);
     }},
    {"ReduceScatter",
     [](Communicator* c, std::vector<int64_t>* data) {
       return c->ReduceScatter(data->data(), 7, Dtype::kI64, ReduceOp::kSum);
     }},
    {"AllGather",
     [](Communicator* c, std::vector<int64_t>* data) {
       return c->AllGather(data->data(), 7, Dtype::kI64);
     }},
    {"Barrier", [](Communicator* c, std::vector<int64_t>*) { return c->Barrier(); }},
    {"Allocate", [](Communicator* c, std::vector<int64_t>*) { return c->Allocate(64).status(); }},
    {"Group", [](Communicator* c, std::vector<int64_t>*) { return c->Group({0}).status(); }},
}};

class EveryOperationTest : public testing::TestWithParam<std::tuple<Way, NamedOperation>> {
 protected:
  Way way() const { return std::get<Way>(GetParam()); }
  OperationCall call() const { return std::get<NamedOperation>(GetParam()).call; }
};
std::string EveryName(const testing::TestParamInfo<std::tuple<Way, NamedOperation>>& info) {
  return absl::StrCat(NameOf(std::get<Way>(info.param)), std::get<NamedOperation>(info.param).name);
}
INSTANTIATE_TEST_SUITE_P(All, EveryOperationTest,
                         testing::Combine(testing::ValuesIn(FullWays()),
                                          testing::ValuesIn(kOperations)),
                         EveryName);

// The late rank gives the others time to be through too early, and looks before it calls.
TEST_P(EveryOperationTest, NobodyReturnsBeforeEverybodyHasCalled) {
  constexpr int64_t kTemptationMs = 10;
  constexpr int kRanks = 3;
  for (const int late : {0, kRanks - 1}) {
    RankGroup group(OptionsOf(way(), kRanks));
    Mutex mu;
    int returned = 0;
    ExpectAllOk(group.Run([&](int rank, Communicator& communicator) {
      std::vector<int64_t> data(7, rank);
      if (rank == late) {
        MutexLock lock(&mu);
        EXPECT_FALSE(mu.AwaitFor([&] { return returned > 0; }, kTemptationMs)) << "late " << late;
      }
      absl::Status status = call()(&communicator, &data);
      MutexLock lock(&mu);
      ++returned;
      return status;
    }));
  }
}

// CASES R15, R21.
TEST_P(EveryOperationTest, OneRankKeepsItsInputAndSendsNothing) {
  RankGroup group(OptionsOf(way(), 1));
  std::vector<int64_t> data = Inputs(0, 7);
  EXPECT_THAT(call()(&group.at(0), &data), IsOk());
  EXPECT_EQ(data, Inputs(0, 7));
  EXPECT_EQ(group.at(0).traffic().sent_bytes, 0);
  EXPECT_EQ(group.at(0).traffic().sent_messages, 0);
}

// Servers of their own have no part of a result: refused on every rank, and what only moves data
// goes over all of them.
TEST(SpareServersTest, HaveNoPartOfAReduction) {
  const GroupOptions options = OptionsOf({Algorithm::kPsExchange, 1}, 2);
  for (const bool scatter : {false, true}) {
    RankGroup group(options);
    for (const absl::Status& status : group.Run([&](int, Communicator& communicator) {
           float value = 1;
           return scatter ? communicator.ReduceScatter(&value, 1, Dtype::kF32, ReduceOp::kSum)
                          : communicator.Reduce(&value, 1, Dtype::kF32, ReduceOp::kSum, 0);
         })) {
      EXPECT_THAT(status, StatusIs(StatusCode::kInvalidArgument, "ranks 2..2 only sum"));
    }
  }
  RankGroup group(options);
  ExpectAllOk(group.Run([&](int rank, Communicator& communicator) {
    std::vector<int64_t> data = {-1, -1, -1};
    data[static_cast<size_t>(rank)] = rank;
    RETURN_IF_ERROR(communicator.AllGather(data.data(), 3, Dtype::kI64));
    EXPECT_THAT(data, ElementsAre(0, 1, 2));
    return communicator.Barrier();
  }));
}

// CASES R48: 40 tensors of 1 KiB on a ring of 4, one by one and in buckets of 10.
TEST(BucketTest, TenTimesFewerMessagesAndTheSamePayload) {
  const auto run = [](int tensors, int64_t floats) {
    RankGroup group({4});
    ExpectAllOk(group.Run([&](int, Communicator& communicator) {
      std::vector<float> data(static_cast<size_t>(floats), 1);
      for (int tensor = 0; tensor < tensors; ++tensor) {
        RETURN_IF_ERROR(communicator.AllReduce(data.data(), floats, Dtype::kF32, ReduceOp::kSum));
      }
      return absl::OkStatus();
    }));
    Traffic all;
    for (int rank = 0; rank < 4; ++rank) all += group.at(rank).traffic();
    return all;
  };
  const Traffic single = run(40, 256);
  const Traffic bucketed = run(4, 2'560);
  EXPECT_EQ(single.sent_messages, 960);
  EXPECT_EQ(bucketed.sent_messages, 96);
  const auto payload = [](const Traffic& traffic) {
    return traffic.sent_bytes - traffic.sent_messages * static_cast<int64_t>(sizeof(MessageHeader));
  };
  EXPECT_EQ(payload(single), payload(bucketed));
}

}  // namespace
}  // namespace lockstep
