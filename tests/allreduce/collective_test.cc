// Results: any length on any number of ranks, the same bits everywhere, and the bytes of the
// formula.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/fingerprint.h"
#include "tests/allreduce/group.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

void ExpectAllOk(const std::vector<absl::Status>& statuses) {
  for (const absl::Status& status : statuses) EXPECT_THAT(status, IsOk());
}

// Distinct over all ranks and positions, and so are their sums.
int64_t Input(int rank, int64_t i) { return (int64_t{1} << 40) * (rank + 1) + i; }
int64_t ExpectedSum(int n, int64_t i) { return (int64_t{1} << 40) * (n * (n + 1) / 2) + n * i; }

// All-reduces `length` int64 on every rank and checks every element.
void ExpectExactSum(RankGroup* group, int64_t length) {
  SCOPED_TRACE(absl::StrCat("length ", length));
  std::vector<int64_t> wrong(static_cast<size_t>(group->n()), 0);
  ExpectAllOk(group->Run([&](int rank, Communicator& communicator) {
    std::vector<int64_t> data(static_cast<size_t>(length));
    for (int64_t i = 0; i < length; ++i) data[static_cast<size_t>(i)] = Input(rank, i);
    absl::Status status = communicator.AllReduce(data.data(), length, Dtype::kI64, ReduceOp::kSum);
    for (int64_t i = 0; i < length; ++i) {
      const bool right = data[static_cast<size_t>(i)] == ExpectedSum(group->n(), i);
      wrong[static_cast<size_t>(rank)] += right ? 0 : 1;
    }
    return status;
  }));
  for (int rank = 0; rank < group->n(); ++rank) {
    EXPECT_EQ(wrong[static_cast<size_t>(rank)], 0) << "elements on rank " << rank;
  }
}

struct LengthCase {
  int n;
  Transport transport;
  int channels;
  int64_t chunk_bytes;
};
std::string LengthName(const testing::TestParamInfo<LengthCase>& info) {
  return absl::StrCat(NameOf(info.param.transport), "Ranks", info.param.n, "Channels",
                      info.param.channels, "Tile", info.param.chunk_bytes);
}

class LengthTest : public testing::TestWithParam<LengthCase> {
 protected:
  GroupOptions Options() const {
    GroupOptions options{GetParam().n, GetParam().transport, GetParam().channels};
    options.limits.chunk_bytes = GetParam().chunk_bytes;
    return options;
  }
};

TEST_P(LengthTest, EveryElementIsExact) {
  RankGroup group(Options());
  const int n = GetParam().n;
  for (const int64_t length : {0, 1, 2, 3, 7, n - 1, n, n + 1, 100 * n + 3}) {
    ExpectExactSum(&group, length);
  }
}

constexpr int64_t kMiB = int64_t{1} << 20;
std::vector<LengthCase> LengthCases() {
  std::vector<LengthCase> cases;
  for (const int n : {1, 2, 3, 5, 7, 8}) {
    cases.push_back({n, Transport::kInProcess, 1, kMiB});
    cases.push_back({n, Transport::kInProcess, 2, 64});  // the least tile: every chunk loops
  }
  for (const int n : {1, 2, 3, 5, 7, 8}) cases.push_back({n, Transport::kTcp, 1, kMiB});
  cases.push_back({3, Transport::kTcp, 2, 64});
  return cases;
}
INSTANTIATE_TEST_SUITE_P(All, LengthTest, testing::ValuesIn(LengthCases()), LengthName);

class LongTest : public testing::TestWithParam<LengthCase> {};
TEST_P(LongTest, TwoToTheTwentyPlusThreeElementsAreExact) {
  RankGroup group({GetParam().n, GetParam().transport, GetParam().channels});
  ExpectExactSum(&group, (int64_t{1} << 20) + 3);
}
INSTANTIATE_TEST_SUITE_P(InProcess, LongTest,
                         testing::Values(LengthCase{1, Transport::kInProcess, 1, kMiB},
                                         LengthCase{2, Transport::kInProcess, 1, kMiB},
                                         LengthCase{3, Transport::kInProcess, 1, kMiB},
                                         LengthCase{5, Transport::kInProcess, 1, kMiB},
                                         LengthCase{7, Transport::kInProcess, 1, kMiB},
                                         LengthCase{8, Transport::kInProcess, 1, kMiB},
                                         LengthCase{2, Transport::kTcp, 1, kMiB},
                                         LengthCase{5, Transport::kTcp, 2, kMiB}),
                         LengthName);

// Random values over four decades: sums depend on their order in most elements.
std::vector<float> RandomFloats(uint32_t seed, size_t count) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> exponent(-2.0F, 2.0F);
  std::uniform_real_distribution<float> sign(-1.0F, 1.0F);
  std::vector<float> values(count);
  for (float& value : values) {
    value = std::copysign(std::pow(10.0F, exponent(random)), sign(random));
  }
  return values;
}

// The ring's order, written down apart from the schedule: chunk c starts at rank c + 1 and is
// summed round the ring until rank c adds its part last. Cuts count elements into n nearly equal
// chunks.
std::vector<float> RingOrderSum(const std::vector<std::vector<float>>& inputs) {
  const size_t n = inputs.size();
  const size_t count = inputs[0].size();
  std::vector<float> sum(count);
  size_t begin = 0;
  for (size_t chunk = 0; chunk < n; ++chunk) {
    const size_t end = begin + count / n + (chunk < count % n ? 1 : 0);
    for (size_t i = begin; i < end; ++i) {
      float total = inputs[(chunk + 1) % n][i];
      for (size_t hop = 2; hop <= n; ++hop) total += inputs[(chunk + hop) % n][i];
      sum[i] = total;
    }
    begin = end;
  }
  return sum;
}

class BitsTest : public testing::TestWithParam<Transport> {};

TEST_P(BitsTest, FloatsAreAddedInRingOrderAndAlikeOnAllRanks) {
  for (const int n : {2, 3, 5, 8}) {
    RankGroup group({n, GetParam()});
    std::vector<std::vector<float>> inputs;
    inputs.reserve(static_cast<size_t>(n));
    for (int rank = 0; rank < n; ++rank) {
      inputs.push_back(RandomFloats(static_cast<uint32_t>(10 * n + rank), 1003));
    }
    std::vector<std::vector<float>> outputs = inputs;
    ExpectAllOk(group.Run([&](int rank, Communicator& communicator) {
      std::vector<float>& data = outputs[static_cast<size_t>(rank)];
      return communicator.AllReduce(data.data(), 1003, Dtype::kF32, ReduceOp::kSum);
    }));
    const std::vector<float> expected = RingOrderSum(inputs);
    for (int rank = 0; rank < n; ++rank) {
      EXPECT_EQ(outputs[static_cast<size_t>(rank)], expected) << "rank " << rank << " of " << n;
    }
  }
}

// CASES R24: the same hash on all ranks, round after round.
TEST_P(BitsTest, ManyRoundsGiveTheSameHashOnAllRanks) {
  constexpr int kRanks = 3;  // two ranks prove nothing: addition commutes
  const int rounds = 1000;
  RankGroup group({kRanks, GetParam()});
  std::vector<std::vector<uint64_t>> hashes(kRanks);
  ExpectAllOk(group.Run([&](int rank, Communicator& communicator) {
    for (int round = 0; round < rounds; ++round) {
      std::vector<float> data = RandomFloats(static_cast<uint32_t>(round * kRanks + rank), 67);
      absl::Status status = communicator.AllReduce(data.data(), static_cast<int64_t>(data.size()),
                                                   Dtype::kF32, ReduceOp::kSum);
      if (!status.ok()) return status;
      hashes[static_cast<size_t>(rank)].push_back(Fingerprint64(std::as_bytes(std::span(data))));
    }
    return absl::OkStatus();
  }));
  ASSERT_EQ(hashes[0].size(), static_cast<size_t>(rounds));
  EXPECT_EQ(hashes[1], hashes[0]);
  EXPECT_EQ(hashes[2], hashes[0]);
}

TEST_P(BitsTest, BroadcastGivesEveryRankTheRootsElements) {
  for (const int n : {1, 2, 3, 5}) {
    GroupOptions options{n, GetParam()};
    options.limits.chunk_bytes = 64;
    RankGroup group(options);
    for (int root = 0; root < n; ++root) {
      for (const int64_t length : {0, 1, 7, 1003}) {
        std::vector<std::vector<int64_t>> data(static_cast<size_t>(n));
        ExpectAllOk(group.Run([&](int rank, Communicator& communicator) {
          std::vector<int64_t>& mine = data[static_cast<size_t>(rank)];
          mine.resize(static_cast<size_t>(length));
          std::iota(mine.begin(), mine.end(), Input(rank, 0));
          return communicator.Broadcast(mine.data(), length, Dtype::kI64, root);
        }));
        std::vector<int64_t> expected(static_cast<size_t>(length));
        std::iota(expected.begin(), expected.end(), Input(root, 0));
        for (const auto& mine : data) EXPECT_EQ(mine, expected) << "root " << root << " of " << n;
      }
    }
  }
}

// 2(n-1)/n S each way and rank, headers included, within 1 % at 1 MiB.
TEST_P(BitsTest, CountedBytesAreTheFormulas) {
  for (const int n : {1, 2, 4, 8}) {
    RankGroup group({n, GetParam()});
    constexpr int64_t kCount = kMiB / 4;
    ExpectAllOk(group.Run([&](int, Communicator& communicator) {
      std::vector<float> data(kCount, 1.0F);
      return communicator.AllReduce(data.data(), kCount, Dtype::kF32, ReduceOp::kSum);
    }));
    const double formula = 2.0 * (n - 1) / n * static_cast<double>(kMiB);
    for (int rank = 0; rank < n; ++rank) {
      const Traffic traffic = group.at(rank).traffic();
      EXPECT_NEAR(static_cast<double>(traffic.sent_bytes), formula, formula / 100) << rank;
      EXPECT_NEAR(static_cast<double>(traffic.received_bytes), formula, formula / 100) << rank;
      EXPECT_EQ(traffic.sent_messages, 2 * (n - 1)) << rank;
      EXPECT_EQ(traffic.received_messages, 2 * (n - 1)) << rank;
    }
  }
}

std::string TransportName(const testing::TestParamInfo<Transport>& info) {
  return NameOf(info.param);
}
INSTANTIATE_TEST_SUITE_P(All, BitsTest, testing::Values(Transport::kInProcess, Transport::kTcp),
                         TransportName);

// A rank that is through may leave while others still work on the last call: that is no loss.
TEST(LeavingTest, AfterTheLastCallDisturbsNobody) {
  for (const Transport transport : {Transport::kInProcess, Transport::kTcp}) {
    RankGroup group({4, transport});
    for (const absl::Status& status : group.Run([&](int rank, Communicator&communicator) {
           std::vector<int64_t> data(100'000, rank);
           absl::Status result =
               communicator.AllReduce(data.data(), 100'000, Dtype::kI64, ReduceOp::kSum);
           group.Destroy(rank);
           return result;
         })) {
      EXPECT_THAT(status, IsOk()) << NameOf(transport);
    }
  }
}

}  // namespace
}  // namespace lockstep
