// AUTO: one measurement, the same choice on every rank, with its reason. And memory from Allocate.
#include "allreduce/host/tuning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "tests/allreduce/group.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using absl::StatusCode;
using testing::HasSubstr;
using testing::StartsWith;

void ExpectAllOk(const std::vector<absl::Status>& statuses) {
  for (const absl::Status& status : statuses) EXPECT_THAT(status, IsOk());
}

GroupOptions Auto(int n, Transport transport) {
  GroupOptions options;
  options.n = n;
  options.transport = transport;
  options.way.algorithm = Algorithm::kAuto;
  return options;
}

class AutoTest : public testing::TestWithParam<Transport> {};
std::string TransportName(const testing::TestParamInfo<Transport>& info) {
  return NameOf(info.param);
}
INSTANTIATE_TEST_SUITE_P(All, AutoTest, testing::Values(Transport::kInProcess, Transport::kTcp),
                         TransportName);

// However noisy the measurement: texts hold the measured numbers, and they are everybody's.
TEST_P(AutoTest, EveryRankChoosesAlikeForEverySize) {
  for (const int n : {2, 3, 5}) {
    for (int repeat = 0; repeat < 3; ++repeat) {
      RankGroup group(Auto(n, GetParam()));
      std::vector<std::vector<std::string>> choices(static_cast<size_t>(n));
      ExpectAllOk(group.Run([&](int rank, Communicator& communicator) {
        EXPECT_EQ(communicator.Choice(4), "auto: nothing measured yet, the first all_reduce does");
        EXPECT_EQ(communicator.AdditionOrder(4), "");
        for (const int64_t count : {0, 1, 1'000, 100'000}) {
          std::vector<int64_t> data(static_cast<size_t>(count), rank);
          RETURN_IF_ERROR(communicator.AllReduce(data.data(), count, Dtype::kI64, ReduceOp::kSum));
          EXPECT_EQ(data, std::vector<int64_t>(static_cast<size_t>(count), n * (n - 1) / 2));
          choices[static_cast<size_t>(rank)].push_back(communicator.Choice(count * 8));
          choices[static_cast<size_t>(rank)].push_back(communicator.AdditionOrder(count));
        }
        return absl::OkStatus();
      }));
      for (const auto& choice : choices) EXPECT_EQ(choice, choices[0]);
      EXPECT_THAT(choices[0][4], StartsWith("auto: "));
      EXPECT_THAT(choices[0][4], HasSubstr(absl::StrCat(" for 4096..8191 bytes on ", n, " ranks")));
    }
  }
}

TEST_P(AutoTest, ServesTheOtherOperationsToo) {
  RankGroup group(Auto(3, GetParam()));
  ExpectAllOk(group.Run([](int rank, Communicator& communicator) {
    std::vector<int64_t> data(9, rank);
    RETURN_IF_ERROR(communicator.Barrier());
    RETURN_IF_ERROR(communicator.ReduceScatter(data.data(), 9, Dtype::kI64, ReduceOp::kSum));
    RETURN_IF_ERROR(communicator.AllGather(data.data(), 9, Dtype::kI64));
    EXPECT_EQ(data, std::vector<int64_t>(9, 3));
    return communicator.Broadcast(data.data(), 9, Dtype::kI64, 2);
  }));
}

TEST_P(AutoTest, AMissingRankIsNamedDuringTheMeasurement) {
  GroupOptions options = Auto(3, GetParam());
  options.limits = TestLimits(1'000);  // the others must answer within a tenth of it
  for (const int missing : {0, 2}) {
    RankGroup group(options);
    const std::vector<absl::Status> statuses = group.Run([&](int rank, Communicator& communicator) {
      int64_t value = 1;
      if (rank == missing) return absl::OkStatus();
      return communicator.AllReduce(&value, 1, Dtype::kI64, ReduceOp::kSum);
    });
    for (int rank = 0; rank < 3; ++rank) {
      if (rank == missing) continue;
      const absl::Status& status = statuses[static_cast<size_t>(rank)];
      EXPECT_THAT(status, StatusIs(StatusCode::kDeadlineExceeded, "tune #0"));
      EXPECT_THAT(status, StatusIs(StatusCode::kDeadlineExceeded,
                                   absl::StrCat("missing: rank ", missing, ".")));
    }
  }
}

TEST(ChoiceTest, ForcedAndAlone) {
  RankGroup forced({2});
  EXPECT_EQ(forced.at(0).Choice(100), "ring: asked for");
  RankGroup alone(Auto(1, Transport::kInProcess));
  int64_t value = 7;
  EXPECT_THAT(alone.at(0).AllReduce(&value, 1, Dtype::kI64, ReduceOp::kSum), IsOk());
  EXPECT_EQ(value, 7);
  EXPECT_EQ(alone.at(0).Choice(100), "auto: one rank alone, nothing to choose");
  EXPECT_EQ(alone.at(0).traffic().sent_bytes, 0);
}

TEST(TuningTest, SizesShareAChoiceUpToTheNextPowerOfTwo) {
  Tuning tuning(8, int64_t{1} << 20);
  tuning.Learn({.latency_ns = 9'000,
                .overhead_ns = 1'000,
                .beta_ns_per_byte = 0.1,
                .gamma_ns_per_byte = 0.05});
  std::set<Algorithm> chosen;
  for (int64_t bytes = 1; bytes <= int64_t{1} << 30; bytes *= 2) {
    const Algorithm algorithm = tuning.For(bytes);
    chosen.insert(algorithm);
    EXPECT_EQ(tuning.For(2 * bytes - 1), algorithm);
    EXPECT_EQ(tuning.Choose(bytes).algorithm(), algorithm);
    EXPECT_THAT(tuning.Why(bytes), StartsWith(absl::StrCat("auto: ", NameOf(algorithm), " for ")));
  }
  EXPECT_GT(chosen.size(), 1U) << "latency decides small sizes, bandwidth large ones";
  EXPECT_THAT(tuning.Why(0), HasSubstr(" for 0..0 bytes on 8 ranks (latency 9.00 us, overhead 1.00 "
                                       "us, 0.100 ns/B moved, 0.050 ns/B reduced): "));
}

TEST(TuningTest, SaysWhatSharedCoresCost) {
  Tuning tuning(8, int64_t{1} << 20);
  tuning.Learn({.latency_ns = 4'000,
                .overhead_ns = 3'000,
                .beta_ns_per_byte = 0.1,
                .gamma_ns_per_byte = 0.05,
                .crowd_message_ns = 5'000,
                .crowd_ns_per_byte = 0.25});
  EXPECT_THAT(tuning.Why(4), StartsWith("auto: star for 4..7 bytes on 8 ranks ("));
  EXPECT_THAT(tuning.Why(4), HasSubstr("reduced; sharing cores: 5.00 us a message, 0.250 ns/B): "));
}

// The burst's messages are small, so a port is never busy for longer than a message takes.
TEST_P(AutoTest, TheMeasuredCostsAreSane) {
  RankGroup group(Auto(2, GetParam()));
  ExpectAllOk(group.Run([](int, Communicator& communicator) {
    int64_t value = 1;
    return communicator.AllReduce(&value, 1, Dtype::kI64, ReduceOp::kSum);
  }));
  EXPECT_THAT(group.at(1).Choice(8),
              testing::ContainsRegex("latency [0-9]+\\.[0-9]+ us, overhead [0-9]+\\.[0-9]+ "
                                     "us, [0-9]+\\.[0-9]+ ns/B moved, [0-9]+\\.[0-9]+ ns/B"));
}

TEST(AllocateTest, GivesAlignedMemoryThatCollectivesUse) {
  RankGroup group({3});
  ExpectAllOk(group.Run([](int rank, Communicator& communicator) {
    for (const int64_t bytes : {0, 8, 1'000, 1 << 20}) {
      ASSIGN_OR_RETURN(const std::span<std::byte> memory, communicator.Allocate(bytes));
      EXPECT_EQ(memory.size(), static_cast<size_t>(bytes));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % 64, 0U);
      const int64_t count = bytes / 8;
      auto* values = reinterpret_cast<int64_t*>(memory.data());
      std::fill(values, values + count, rank);
      RETURN_IF_ERROR(communicator.AllReduce(values, count, Dtype::kI64, ReduceOp::kSum));
      EXPECT_EQ(std::count(values, values + count, 3), count);
    }
    return absl::OkStatus();
  }));
}

TEST(AllocateTest, DifferentSizesAreAMismatch) {
  RankGroup group({2});
  for (const absl::Status& status : group.Run([](int rank, Communicator&communicator) {
         return communicator.Allocate(64 + 64 * rank).status();
       })) {
    EXPECT_THAT(status, StatusIs(StatusCode::kInvalidArgument, "allocate #0 (u8, count 64,"));
    EXPECT_THAT(status, StatusIs(StatusCode::kInvalidArgument, "allocate #0 (u8, count 128,"));
  }
}

TEST(AllocateTest, TooMuchIsRefusedWithNeededAndAvailableBytes) {
  constexpr int64_t kTooMuch = int64_t{1} << 60;
  RankGroup group({2});
  for (const absl::Status& status : group.Run([](int, Communicator& communicator) {
         return communicator.Allocate(kTooMuch).status();
       })) {
    EXPECT_THAT(status,
                StatusIs(StatusCode::kResourceExhausted,
                         absl::StrCat("needed ", kTooMuch, " bytes of memory, available ")));
  }
}

}  // namespace
}  // namespace lockstep
