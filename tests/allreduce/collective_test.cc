// Results: any length, dtype and reduction on any number of ranks, exact to the last element, and
// the bytes of the formulas. One source for two tiers: long buffers in full.
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
#include "tests/allreduce/elements.h"
#include "tests/allreduce/group.h"
#include "tests/allreduce/tier.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

void ExpectAllOk(const std::vector<absl::Status>& statuses) {
  for (const absl::Status& status : statuses) EXPECT_THAT(status, IsOk());
}

// Sums of 13 of these need no rounding in the dtype.
int64_t Values(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF32:
      return int64_t{1} << 20;
    case Dtype::kF64:
      return int64_t{1} << 49;
    case Dtype::kI64:
      return int64_t{1} << 59;
    case Dtype::kI32:
      return int64_t{1} << 27;
    case Dtype::kF16:
      return 157;
    case Dtype::kBf16:
      return 19;
    case Dtype::kU8:
      return 256;  // sums wrap
  }
  return 1;
}

struct Call {
  Dtype dtype = Dtype::kI64;
  ReduceOp op = ReduceOp::kSum;
  int64_t length = 0;
};

int64_t Input(const Call& call, int rank, int64_t i) {
  const uint64_t draw = Random(static_cast<uint64_t>(rank), static_cast<uint64_t>(i)).Next();
  if (call.op == ReduceOp::kProd) return std::array<int64_t, 3>{1, 2, -1}[draw % 3];
  const int64_t values = Values(call.dtype);
  const int64_t value = static_cast<int64_t>(draw % static_cast<uint64_t>(values));
  return call.dtype == Dtype::kU8 ? value : value - values / 2;
}

int64_t Reduce(ReduceOp op, int64_t a, int64_t b) {
  switch (op) {
    case ReduceOp::kSum:
      return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    case ReduceOp::kMin:
      return std::min(a, b);
    case ReduceOp::kMax:
      return std::max(a, b);
    case ReduceOp::kProd:
      return a * b;
    case ReduceOp::kAvg:
      break;  // operation_test.cc
  }
  return 0;
}

// A call with what it starts from and must end with.
struct Problem {
  Call call;
  std::vector<std::vector<std::byte>> inputs;  // [rank]
  std::vector<std::byte> expected;
};

Problem MakeProblem(const Call& call, int n) {
  const auto bytes = static_cast<size_t>(call.length * SizeOf(call.dtype));
  Problem problem{call, std::vector<std::vector<std::byte>>(static_cast<size_t>(n)), {}};
  for (auto& input : problem.inputs) input.resize(bytes);
  problem.expected.resize(bytes);
  for (int64_t i = 0; i < call.length; ++i) {
    int64_t result = Input(call, 0, i);
    for (int rank = 0; rank < n; ++rank) {
      const int64_t value = Input(call, rank, i);
      PutElement(call.dtype, value, i, problem.inputs[static_cast<size_t>(rank)].data());
      if (rank > 0) result = Reduce(call.op, result, value);
    }
    PutElement(call.dtype, result, i, problem.expected.data());
  }
  return problem;
}

absl::Status RunProblem(const Problem& problem, int rank, Communicator* communicator) {
  const Call& call = problem.call;
  GuardedBuffer buffer(call.length * SizeOf(call.dtype));
  const bool contributes = rank < communicator->contributors();
  if (contributes) {
    const std::vector<std::byte>& input = problem.inputs[static_cast<size_t>(rank)];
    std::copy(input.begin(), input.end(), buffer.data());
  }
  RETURN_IF_ERROR(communicator->AllReduce(buffer.data(), call.length, call.dtype, call.op));
  const std::string what = absl::StrCat(NameOf(call.dtype), " ", NameOf(call.op), ", length ",
                                        call.length, ", rank ", rank);
  EXPECT_TRUE(buffer.Intact()) << what;
  EXPECT_TRUE(!contributes || buffer.Holds(problem.expected)) << what;
  return absl::OkStatus();
}

void ExpectSolved(const GroupOptions& options, const std::vector<Problem>& problems) {
  RankGroup group(options);
  ExpectAllOk(group.Run([&](int rank, Communicator& communicator) {
    for (const Problem& problem : problems) {
      RETURN_IF_ERROR(RunProblem(problem, rank, &communicator));
    }
    return absl::OkStatus();
  }));
}

std::vector<Problem> MakeProblems(const std::vector<Call>& calls, int n) {
  std::vector<Problem> problems;
  problems.reserve(calls.size());
  for (const Call& call : calls) problems.push_back(MakeProblem(call, n));
  return problems;
}

// CASES R20-R22: no elements, fewer than ranks, one more than divides.
std::vector<Call> ShortCalls(int n) {
  std::vector<Call> calls;
  for (const Dtype dtype : kAllDtypes) {
    for (const int64_t length : {0, 1, 2, 3, 7, n - 1, n, n + 1, 10 * n + 3}) {
      calls.push_back({dtype, ReduceOp::kSum, length});
    }
    for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProd}) {
      for (const int64_t length : {1, n + 1}) calls.push_back({dtype, op, length});
    }
  }
  return calls;
}

// The others have product_test.cc and operation_test.cc in quick.
std::vector<Way> TestedWays() { return kFullTier ? AllWays() : ClassicWays(); }

struct ReduceCase {
  Way way;
  int inputs;
  Transport transport = Transport::kInProcess;
  int channels = 1;
  int64_t chunk_bytes = kMiB;
};
GroupOptions OptionsOf(const ReduceCase& param) {
  GroupOptions options = OptionsOf(param.way, param.inputs);
  options.transport = param.transport;
  options.channels = param.channels;
  options.limits.chunk_bytes = param.chunk_bytes;
  return options;
}
std::string ReduceName(const testing::TestParamInfo<ReduceCase>& info) {
  return absl::StrCat(NameOf(info.param.way), NameOf(info.param.transport), "Inputs",
                      info.param.inputs, "Channels", info.param.channels, "Tile",
                      info.param.chunk_bytes);
}

class ReduceTest : public testing::TestWithParam<ReduceCase> {};
TEST_P(ReduceTest, EveryElementIsExact) {
  const int n = GetParam().inputs;
  ExpectSolved(OptionsOf(GetParam()), MakeProblems(ShortCalls(n), n));
}

std::vector<ReduceCase> ReduceCases() {
  std::vector<ReduceCase> cases;
  for (const Way& way : TestedWays()) {
    const bool one_of_a_kind = way.servers == 0 || way.servers == 2;
    for (const int n : {1, 2, 3, 5, 7, 8, 13}) {
      if (kFullTier || one_of_a_kind) cases.push_back({way, n});
    }
    // The least tile: every chunk loops, and lanes run ahead of each other.
    for (const int n : {2, 5}) cases.push_back({way, n, Transport::kInProcess, 3, 64});
    for (const Transport transport : {Transport::kTcp, Transport::kShm}) {
      for (const int n : {1, 3}) cases.push_back({way, n, transport, 2, 64});
    }
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(All, ReduceTest, testing::ValuesIn(ReduceCases()), ReduceName);

// Tiles, lanes and slots under load: each chunk is dozens of tiles.
class TileTest : public testing::TestWithParam<ReduceCase> {};
TEST_P(TileTest, ManyTilesAreExact) {
  const Call call{Dtype::kI64, ReduceOp::kSum, 3001};
  ExpectSolved(OptionsOf(GetParam()), {MakeProblem(call, GetParam().inputs)});
}
std::vector<ReduceCase> TileCases() {
  std::vector<ReduceCase> cases;
  for (const Way& way : TestedWays()) {
    for (const int channels : {1, 2}) {
      for (const int n : {3, 6}) cases.push_back({way, n, Transport::kInProcess, channels, 64});
      cases.push_back({way, 4, Transport::kTcp, channels, 72});
      cases.push_back({way, 4, Transport::kShm, channels, 72});
    }
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(All, TileTest, testing::ValuesIn(TileCases()), ReduceName);

class LongTest : public testing::TestWithParam<int> {};
TEST_P(LongTest, TwoToTheTwentyPlusThreeElementsAreExact) {
  const int n = GetParam();
  std::vector<Call> calls = {{Dtype::kI64, ReduceOp::kSum, kMiB + 3}};
  for (const Dtype dtype : kAllDtypes) {
    if (kFullTier && n == 3) calls.push_back({dtype, ReduceOp::kSum, kMiB + 3});
  }
  const std::vector<Problem> problems = MakeProblems(calls, n);
  for (const Way& way : TestedWays()) {
    SCOPED_TRACE(NameOf(way));
    ExpectSolved(OptionsOf(way, n), problems);
    if (n == 3) ExpectSolved(OptionsOf(ReduceCase{way, n, Transport::kTcp, 2}), problems);
  }
}
std::string RanksName(const testing::TestParamInfo<int>& info) {
  return absl::StrCat("Inputs", info.param);
}
INSTANTIATE_TEST_SUITE_P(All, LongTest,
                         testing::ValuesIn(kFullTier ? std::vector<int>{1, 2, 3, 5, 7, 8, 13}
                                                     : std::vector<int>{2}),
                         RanksName);

class WayTest : public testing::TestWithParam<std::tuple<Way, Transport>> {
 protected:
  GroupOptions Options(int inputs) const {
    GroupOptions options = OptionsOf(std::get<Way>(GetParam()), inputs);
    options.transport = std::get<Transport>(GetParam());
    return options;
  }
};

TEST_P(WayTest, BroadcastGivesEveryRankTheRootsElements) {
  for (const int inputs : {1, 2, 3, 5}) {
    GroupOptions options = Options(inputs);
    options.limits.chunk_bytes = 64;
    RankGroup group(options);
    ExpectAllOk(group.Run([&](int rank, Communicator& communicator) {
      for (int root = 0; root < inputs; ++root) {
        for (const int64_t length : {0, 1, 7, 103}) {
          const Problem problem = MakeProblem({Dtype::kI32, ReduceOp::kSum, length}, inputs);
          const std::vector<std::byte>& wanted = problem.inputs[static_cast<size_t>(root)];
          GuardedBuffer buffer(length * 4);
          if (rank == root) std::copy(wanted.begin(), wanted.end(), buffer.data());
          RETURN_IF_ERROR(communicator.Broadcast(buffer.data(), length, Dtype::kI32, root));
          EXPECT_TRUE(buffer.Intact() && buffer.Holds(wanted))
              << "root " << root << " of " << inputs;
        }
      }
      return absl::OkStatus();
    }));
  }
}

// Ring 2(n-1)/n S; naive (n-1)S; tree (1 + children)S, rank 0 one less; worker S; server nS/s.
double FormulaBytes(const Way& way, int inputs, int rank, double bytes) {
  const double n = inputs;
  const int children = (2 * rank + 1 < inputs ? 1 : 0) + (2 * rank + 2 < inputs ? 1 : 0);
  switch (way.algorithm) {
    case Algorithm::kRing:
      return 2 * (n - 1) / n * bytes;
    case Algorithm::kNaive:
      return (n - 1) * bytes;
    case Algorithm::kTree:
      return (children + (rank == 0 ? 0 : 1)) * bytes;
    case Algorithm::kPsExchange:
      return rank < inputs ? bytes : n * bytes / way.servers;
    default:
      return -1;
  }
}

class BytesTest : public WayTest {};

// Headers included, within 1 % at 1 MiB: a message is at least 32 KiB, a header 48 bytes.
TEST_P(BytesTest, CountedBytesAreTheFormulas) {
  for (const int inputs : {1, 2, 4, 8}) {
    RankGroup group(Options(inputs));
    constexpr int64_t kCount = kMiB / 4;
    ExpectAllOk(group.Run([&](int, Communicator& communicator) {
      std::vector<float> data(kCount, 1.0F);
      return communicator.AllReduce(data.data(), kCount, Dtype::kF32, ReduceOp::kSum);
    }));
    for (int rank = 0; rank < group.n(); ++rank) {
      const double formula =
          FormulaBytes(std::get<Way>(GetParam()), inputs, rank, static_cast<double>(kMiB));
      const Traffic traffic = group.at(rank).traffic();
      EXPECT_NEAR(static_cast<double>(traffic.sent_bytes), formula, formula / 100) << rank;
      EXPECT_NEAR(static_cast<double>(traffic.received_bytes), formula, formula / 100) << rank;
    }
  }
}

TEST_P(WayTest, ServersComeAfterTheContributors) {
  RankGroup group(Options(3));
  for (int rank = 0; rank < group.n(); ++rank) {
    EXPECT_EQ(group.at(rank).contributors(), 3);
    EXPECT_EQ(group.at(rank).world_size(), group.n());
  }
}

// A rank that is through may leave while others still work on the last call: that is no loss.
TEST_P(WayTest, LeavingAfterTheLastCallDisturbsNobody) {
  RankGroup group(Options(4));
  ExpectAllOk(group.Run([&](int rank, Communicator& communicator) {
    std::vector<int64_t> data(100'000, rank);
    absl::Status result = communicator.AllReduce(data.data(), 100'000, Dtype::kI64, ReduceOp::kSum);
    group.Destroy(rank);
    return result;
  }));
}

std::string WayName(const testing::TestParamInfo<std::tuple<Way, Transport>>& info) {
  return absl::StrCat(NameOf(std::get<Way>(info.param)), NameOf(std::get<Transport>(info.param)));
}
INSTANTIATE_TEST_SUITE_P(All, WayTest,
                         testing::Combine(testing::ValuesIn(TestedWays()),
                                          testing::Values(Transport::kInProcess, Transport::kTcp,
                                                          Transport::kShm)),
                         WayName);
INSTANTIATE_TEST_SUITE_P(All, BytesTest,
                         testing::Combine(testing::ValuesIn(ClassicWays()),
                                          testing::Values(Transport::kInProcess, Transport::kTcp,
                                                          Transport::kShm)),
                         WayName);

}  // namespace
}  // namespace lockstep
