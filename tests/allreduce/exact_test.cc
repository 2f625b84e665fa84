// The exact all-reduce: one result for every way, chunk size, number of channels and cut into
// buckets, and a result that every broken promise changes. One source for two tiers: all
// combinations in full.
#include "allreduce/exact.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/fingerprint.h"
#include "base/numeric/exact.h"
#include "base/status.h"
#include "tests/allreduce/group.h"
#include "tests/allreduce/tier.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::IsEmpty;
using Floats = std::vector<float>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Short, exact, one over, none, several blocks with a short last one.
const std::vector<int64_t>& Tensors() {
  static const std::vector<int64_t> tensors = {1, 1024, 1025, 0, 2500, 7, 2048};
  return tensors;
}
int64_t FirstOf(size_t tensor) {
  return std::accumulate(Tensors().begin(), Tensors().begin() + static_cast<std::ptrdiff_t>(tensor),
                         int64_t{0});
}
constexpr size_t kElements = 6605;

// Every block has its own scale, from subnormals to near the largest; the last block of the last
// tensor is zero, and one block of it is zero on rank 0 alone.
std::vector<Floats> Inputs(int n) {
  std::vector<Floats> inputs;
  for (int rank = 0; rank < n; ++rank) {
    std::mt19937 random(static_cast<uint32_t>(100 * n + rank));
    std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
    Floats values(kElements);
    for (size_t i = 0; i < kElements; ++i) {
      const int scale = static_cast<int>(i / 512 * 41 % 260) - 140;
      values[i] = std::ldexp(uniform(random), std::min(scale, 120));
    }
    std::fill(values.end() - 1024, values.end(), rank % 2 == 0 ? 0.0F : -0.0F);
    if (rank == 0) std::fill(values.end() - 2048, values.end() - 1024, 0.0F);
    inputs.push_back(std::move(values));
  }
  return inputs;
}

// As DESIGN says, written down apart from base/numeric.
Floats Oracle(const std::vector<Floats>& inputs, double divisor) {
  const auto n = static_cast<int>(inputs.size());
  const int fraction_bits = 62 - static_cast<int>(std::ceil(std::log2(n)));
  Floats result;
  for (const int64_t tensor : Tensors()) {
    const size_t end = result.size() + static_cast<size_t>(tensor);
    while (result.size() < end) {
      const size_t first = result.size();
      const size_t last = std::min(end, first + 1024);
      float largest = 0;
      bool finite = true;
      for (const Floats& input : inputs) {
        for (size_t i = first; i < last; ++i) {
          largest = std::max(largest, std::fabs(input[i]));
          finite = finite && std::isfinite(input[i]);
        }
      }
      int exponent = 0;
      std::frexp(largest, &exponent);
      for (size_t i = first; i < last; ++i) {
        int64_t sum = 0;
        for (const Floats& input : inputs) {
          if (!finite) continue;
          sum += std::llrint(std::ldexp(static_cast<double>(input[i]), fraction_bits - exponent));
        }
        const double value = std::ldexp(static_cast<double>(sum), exponent - fraction_bits);
        result.push_back(finite ? static_cast<float>(value / divisor) : kNan);
      }
    }
  }
  return result;
}

uint64_t HashOf(const Floats& values) { return Fingerprint64(std::as_bytes(std::span(values))); }

using Cut = std::vector<size_t>;  // tensors in each bucket
const std::vector<Cut>& Cuts() {
  static const std::vector<Cut> cuts = {{7}, {1, 1, 1, 1, 1, 1, 1}, {2, 3, 2}};
  return cuts;
}

// What a rank's numbers go through on their way into the sum.
using Tamper = std::function<void(int rank, std::span<int64_t> quantised)>;

class TamperedCommunicator final : public Communicator {
 public:
  TamperedCommunicator(Communicator* inner, const Tamper& tamper)
      : inner_(inner), tamper_(tamper) {}
  int rank() const override { return inner_->rank(); }
  int world_size() const override { return inner_->world_size(); }
  int contributors() const override { return inner_->contributors(); }
  absl::Status AllReduce(void* data, int64_t count, Dtype dtype, ReduceOp op) override {
    if (dtype == Dtype::kI64 && tamper_) {
      tamper_(rank(), {static_cast<int64_t*>(data), static_cast<size_t>(count)});
    }
    return inner_->AllReduce(data, count, dtype, op);
  }
  absl::Status Broadcast(void* data, int64_t count, Dtype dtype, int root) override {
    return inner_->Broadcast(data, count, dtype, root);
  }
  absl::Status Reduce(void* data, int64_t count, Dtype dtype, ReduceOp op, int root) override {
    return inner_->Reduce(data, count, dtype, op, root);
  }
  absl::Status ReduceScatter(void* data, int64_t count, Dtype dtype, ReduceOp op) override {
    return inner_->ReduceScatter(data, count, dtype, op);
  }
  absl::Status AllGather(void* data, int64_t count, Dtype dtype) override {
    return inner_->AllGather(data, count, dtype);
  }
  absl::Status Barrier() override { return inner_->Barrier(); }
  absl::StatusOr<std::span<std::byte>> Allocate(int64_t bytes) override {
    return inner_->Allocate(bytes);
  }
  absl::StatusOr<std::unique_ptr<Communicator>> Group(const std::vector<int>& ranks) override {
    return inner_->Group(ranks);
  }
  std::string Choice(int64_t bytes) const override { return inner_->Choice(bytes); }
  absl::StatusOr<std::optional<LinkCost>> MeasureLink() override { return inner_->MeasureLink(); }
  std::string AdditionOrder(int64_t count) const override { return inner_->AdditionOrder(count); }
  void LogMessages(MessageLog* log) override { inner_->LogMessages(log); }
  Traffic traffic() const override { return inner_->traffic(); }

 private:
  Communicator* const inner_;
  const Tamper& tamper_;
};

struct Outcome {
  std::vector<Floats> sums;                  // [rank that holds input]
  std::vector<std::vector<int>> non_finite;  // [rank][bucket], as tensors of all
};

Outcome RunExact(const GroupOptions& options, const std::vector<Floats>& inputs, const Cut& cut,
                 double divisor, const Tamper& tamper = {}) {
  RankGroup group(options);
  Outcome outcome{inputs, std::vector<std::vector<int>>(static_cast<size_t>(group.n()))};
  for (const absl::Status& status : group.Run([&](int rank, Communicator&communicator) {
         const auto r = static_cast<size_t>(rank);
         TamperedCommunicator tampered(&communicator, tamper);
         ExactAllReduce exact(&tampered);
         size_t tensor = 0;
         for (const size_t tensors : cut) {
           const std::span<const int64_t> counts(Tensors().data() + tensor, tensors);
           float* values =
               rank < group.inputs() ? outcome.sums[r].data() + FirstOf(tensor) : nullptr;
           RETURN_IF_ERROR(exact.Run(Dtype::kF32, values, counts, divisor));
           for (const int index : exact.non_finite()) {
             outcome.non_finite[r].push_back(static_cast<int>(tensor) + index);
           }
           tensor += tensors;
         }
         return absl::OkStatus();
       })) {
    EXPECT_THAT(status, IsOk());
  }
  return outcome;
}

struct Setting {
  int channels;
  int64_t chunk_bytes;
  size_t cut;
};
std::vector<Setting> Settings() {
  if (!kFullTier) return {{1, int64_t{1} << 20, 0}, {2, 1'000, 1}, {3, 4'096, 2}};
  std::vector<Setting> settings;
  for (const int channels : {1, 2, 3}) {
    for (const int64_t chunk_bytes : {512, 1'000, 4'096, 1 << 20}) {
      for (const size_t cut : {0U, 1U, 2U}) settings.push_back({channels, chunk_bytes, cut});
    }
  }
  return settings;
}

class ExactTest : public testing::TestWithParam<int> {};

TEST_P(ExactTest, EveryWayAndSettingGivesTheOracleBits) {
  const int n = GetParam();
  const std::vector<Floats> inputs = Inputs(n);
  const uint64_t expected = HashOf(Oracle(inputs, n));
  for (const Way& way : AllWays()) {
    for (const Setting& setting : Settings()) {
      GroupOptions options = OptionsOf(way, n);
      options.channels = setting.channels;
      options.limits.chunk_bytes = setting.chunk_bytes;
      const Outcome outcome = RunExact(options, inputs, Cuts()[setting.cut], n);
      for (const Floats& sums : outcome.sums) {
        EXPECT_EQ(HashOf(sums), expected)
            << NameOf(way) << ", " << setting.channels << " channels, chunks of "
            << setting.chunk_bytes << ", cut " << setting.cut;
      }
      for (const auto& tensors : outcome.non_finite) EXPECT_THAT(tensors, IsEmpty());
    }
  }
}

TEST_P(ExactTest, ANonFiniteBlockIsNanOnEveryRankAndItsTensorNamed) {
  const int n = GetParam();
  std::vector<Floats> inputs = Inputs(n);
  inputs[1][1] = kInfinity;                                     // tensor 1
  inputs[0][static_cast<size_t>(FirstOf(4)) + 2499] = kNan;     // its short last block
  inputs.back()[static_cast<size_t>(FirstOf(6))] = -kInfinity;  // where rank 0 has zeros
  const Floats expected = Oracle(inputs, 1);
  ASSERT_EQ(std::count_if(expected.begin(), expected.end(), [](float x) { return x != x; }),
            1024 + 452 + 1024);
  for (const Way& way : AllWays()) {
    for (const Cut& cut : Cuts()) {
      const Outcome outcome = RunExact(OptionsOf(way, n), inputs, cut, 1);
      for (int rank = 0; rank < n; ++rank) {
        const auto r = static_cast<size_t>(rank);
        EXPECT_EQ(HashOf(outcome.sums[r]), HashOf(expected)) << NameOf(way) << ", rank " << rank;
        EXPECT_THAT(outcome.non_finite[r], ElementsAre(1, 4, 6))
            << NameOf(way) << ", rank " << rank;
      }
    }
  }
}

std::string RanksName(const testing::TestParamInfo<int>& info) {
  return absl::StrCat("Inputs", info.param);
}
INSTANTIATE_TEST_SUITE_P(All, ExactTest, testing::Values(2, 3, 4, 5, 8), RanksName);

TEST(ExactAloneTest, OneRankGetsItsOwnNumbersBack) {
  for (const Way& way : AllWays()) {
    std::vector<Floats> inputs = Inputs(1);
    const Outcome outcome = RunExact(OptionsOf(way, 1), inputs, Cuts()[2], 1);
    EXPECT_EQ(HashOf(outcome.sums[0]), HashOf(Oracle(inputs, 1))) << NameOf(way);
  }
}

// CASES R25: in float the sum depends on the order; here it is the exact one, alone or in a bucket.
TEST(ExactCancellationTest, GivesTheExactSumForEveryWay) {
  const std::array<float, 4> values = {1e8F, 1.0F, -1e8F, 1.0F};
  for (const Way& way : AllWays()) {
    for (const std::vector<int64_t>& tensors : {std::vector<int64_t>{1}, {3, 1, 1200}}) {
      const auto count = std::accumulate(tensors.begin(), tensors.end(), int64_t{0});
      RankGroup group(OptionsOf(way, 4));
      for (const absl::Status& status : group.Run([&](int rank, Communicator&communicator) {
             ExactAllReduce exact(&communicator);
             if (rank >= 4) return exact.Run(Dtype::kF32, nullptr, tensors, 4);
             const float mine = values[static_cast<size_t>(rank)];
             Floats data(static_cast<size_t>(count), mine);
             RETURN_IF_ERROR(exact.Run(Dtype::kF32, data.data(), tensors, 4));
             EXPECT_EQ(data, Floats(data.size(), 0.5F));
             return absl::OkStatus();
           })) {
        EXPECT_THAT(status, IsOk());
      }
    }
  }
}

// f16 and bf16: as one process with all inputs computes it.
TEST(ExactHalvesTest, EveryWayGivesTheBitsOfOneProcess) {
  constexpr int kRanks = 3;
  for (const Dtype dtype : {Dtype::kF16, Dtype::kBf16}) {
    std::vector<std::vector<uint16_t>> inputs(kRanks, std::vector<uint16_t>(kElements));
    std::mt19937 random(7);
    for (auto& input : inputs) {
      for (uint16_t& half : input) half = static_cast<uint16_t>(random() & 0xbbffU);  // finite
    }
    std::vector<int32_t> exponents(static_cast<size_t>(CountExactBlocks(Tensors())), kZeroBlock);
    std::vector<int32_t> own(exponents.size());
    std::vector<int64_t> sum(kElements, 0);
    for (const auto& input : inputs) {
      ExactExponents(dtype, input.data(), Tensors(), own);
      for (size_t i = 0; i < own.size(); ++i) exponents[i] = std::max(exponents[i], own[i]);
    }
    for (const auto& input : inputs) {
      ExactQuantise(dtype, input.data(), Tensors(), exponents, {.world_size = kRanks, .add = true},
                    sum);
    }
    std::vector<uint16_t> expected(kElements);
    ExactRestore(dtype, sum, Tensors(), exponents, {.world_size = kRanks, .divisor = kRanks},
                 expected.data());
    for (const Way& way : AllWays()) {
      RankGroup group(OptionsOf(way, kRanks));
      for (const absl::Status& status : group.Run([&](int rank, Communicator&communicator) {
             ExactAllReduce exact(&communicator);
             if (rank >= kRanks) return exact.Run(dtype, nullptr, Tensors(), kRanks);
             std::vector<uint16_t> data = inputs[static_cast<size_t>(rank)];
             RETURN_IF_ERROR(exact.Run(dtype, data.data(), Tensors(), kRanks));
             EXPECT_EQ(data, expected) << NameOf(dtype) << " " << NameOf(way);
             return absl::OkStatus();
           })) {
        EXPECT_THAT(status, IsOk());
      }
    }
  }
}

TEST(ExactRefusalTest, OtherDtypesAreRefusedBeforeAnyMessage) {
  RankGroup group({2});
  for (const Dtype dtype : {Dtype::kF64, Dtype::kI64, Dtype::kI32, Dtype::kU8}) {
    ExactAllReduce exact(&group.at(0));
    EXPECT_THAT(exact.Run(dtype, nullptr, Tensors(), 2),
                StatusIs(StatusCode::kInvalidArgument,
                         absl::StrCat("rank 0: ", NameOf(dtype), " has no exact sum")));
  }
  EXPECT_EQ(group.at(0).traffic().sent_messages, 0);
}

// Each broken promise, planted on rank 1 alone, changes the hash of every rank.
struct BreakerCase {
  const char* name;
  Tamper tamper;
  double divisor = 3;
};
class BreakerTest : public testing::TestWithParam<BreakerCase> {};

TEST_P(BreakerTest, ChangesTheHash) {
  const std::vector<Floats> inputs = Inputs(3);
  const uint64_t expected = HashOf(Oracle(inputs, 3));
  for (const Way& way : AllWays()) {
    const GroupOptions options = OptionsOf(way, 3);
    const Outcome outcome =
        RunExact(options, inputs, Cuts()[0], GetParam().divisor, GetParam().tamper);
    for (const Floats& sums : outcome.sums) EXPECT_NE(HashOf(sums), expected) << NameOf(way);
  }
}

std::vector<BreakerCase> BreakerCases() {
  const auto on_rank_1 = [](const std::function<void(std::span<int64_t>)>& change) -> Tamper {
    return [change](int rank, std::span<int64_t> quantised) {
      if (rank == 1) change(quantised);
    };
  };
  return {
      {"FlippedBit", on_rank_1([](auto q) { q[3000] ^= int64_t{1} << 50; })},
      {"LostChunk", on_rank_1([](auto q) { std::fill_n(q.begin() + 500, 300, 0); })},
      {"DoubleCount", on_rank_1([](auto q) {
         for (int64_t& value : q.subspan(500, 300)) value *= 2;
       })},
      {"SwappedBlocks", on_rank_1([](auto q) {
         std::swap_ranges(q.begin() + 1, q.begin() + 1025, q.begin() + 1025);
       })},
      {"ForgottenDivision", {}, 1},
  };
}
std::string BreakerName(const testing::TestParamInfo<BreakerCase>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(All, BreakerTest, testing::ValuesIn(BreakerCases()), BreakerName);

// On the wire too: one bit of one payload of the sum, in the middle of its way.
TEST(ExactWireTest, AFlippedBitOfAMessageChangesTheHash) {
  const std::vector<Floats> inputs = Inputs(3);
  GroupOptions options = OptionsOf({Algorithm::kRing}, 3);
  const FaultRule rule{.fault = LinkFault::kCorrupt,
                       .peer = 1,
                       .first = 4,  // after the four of the exponents
                       .corrupt_byte = sizeof(MessageHeader) + 806};
  options.faults = {{0, rule}};
  for (const Floats& sums : RunExact(options, inputs, Cuts()[0], 3).sums) {
    EXPECT_NE(HashOf(sums), HashOf(Oracle(inputs, 3)));
  }
}

}  // namespace
}  // namespace lockstep
