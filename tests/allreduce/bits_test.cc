// Bits: the same on every rank, round after round, and those that the addition order predicts.
#include <gtest/gtest.h>

#include <bit>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/fingerprint.h"
#include "base/status.h"
#include "tests/allreduce/group.h"
#include "tests/allreduce/tier.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using Floats = std::vector<float>;

void ExpectAllOk(const std::vector<absl::Status>& statuses) {
  for (const absl::Status& status : statuses) EXPECT_THAT(status, IsOk());
}

// Random values over four decades: sums depend on their order in most elements.
Floats RandomFloats(uint32_t seed, size_t count) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> exponent(-2.0F, 2.0F);
  std::uniform_real_distribution<float> sign(-1.0F, 1.0F);
  Floats values(count);
  for (float& value : values) {
    value = std::copysign(std::pow(10.0F, exponent(random)), sign(random));
  }
  return values;
}

std::vector<Floats> RandomInputs(int n, size_t count) {
  std::vector<Floats> inputs;
  inputs.reserve(static_cast<size_t>(n));
  for (int rank = 0; rank < n; ++rank) {
    inputs.push_back(RandomFloats(static_cast<uint32_t>(10 * n + rank), count));
  }
  return inputs;
}

// [rank that holds input]: what an all-reduce of `inputs` leaves there.
std::vector<Floats> Sums(RankGroup* group, const std::vector<Floats>& inputs) {
  std::vector<Floats> outputs = inputs;
  outputs.resize(static_cast<size_t>(group->n()), Floats(inputs[0].size()));
  ExpectAllOk(group->Run([&](int rank, Communicator& communicator) {
    Floats& data = outputs[static_cast<size_t>(rank)];
    return communicator.AllReduce(data.data(), static_cast<int64_t>(data.size()), Dtype::kF32,
                                  ReduceOp::kSum);
  }));
  outputs.resize(inputs.size());
  return outputs;
}

// The ring's order, written down apart from the schedule: chunk c starts at rank c + 1 and is
// summed round the ring until rank c adds its part last. Cuts count elements into n nearly equal
// chunks.
Floats RingOrderSum(const std::vector<Floats>& inputs) {
  const size_t n = inputs.size();
  const size_t count = inputs[0].size();
  Floats sum(count);
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

// Adds as the text of schedule/order.h says: "0-4: (g0+g1)+g2; 5-9: ...".
class Prediction {
 public:
  explicit Prediction(const std::vector<Floats>& inputs) : inputs_(inputs) {}

  Floats Of(const std::string& order) {
    Floats sum;
    for (const absl::string_view run : absl::StrSplit(order, "; ")) {
      const std::vector<std::string> parts = absl::StrSplit(run, ": ");
      const std::vector<std::string> range = absl::StrSplit(parts.at(0), '-');
      size_t first = 0;
      size_t last = 0;
      CHECK(absl::SimpleAtoi(range.at(0), &first) && absl::SimpleAtoi(range.at(1), &last)) << run;
      CHECK_EQ(first, sum.size());
      for (size_t i = first; i <= last; ++i) {
        rest_ = parts.at(1);
        sum.push_back(Sum(i));
        CHECK(rest_.empty()) << rest_;
      }
    }
    return sum;
  }

 private:
  float Sum(size_t i) {
    float sum = Operand(i);
    while (Take('+')) sum += Operand(i);
    return sum;
  }
  float Operand(size_t i) {
    if (Take('(')) {
      const float sum = Sum(i);
      CHECK(Take(')')) << rest_;
      return sum;
    }
    CHECK(Take('g')) << rest_;
    size_t rank = 0;
    for (; !rest_.empty() && std::isdigit(rest_[0]) != 0; rest_.erase(0, 1)) {
      rank = 10 * rank + static_cast<size_t>(rest_[0] - '0');
    }
    return inputs_.at(rank).at(i);
  }
  bool Take(char wanted) {
    const bool there = !rest_.empty() && rest_[0] == wanted;
    if (there) rest_.erase(0, 1);
    return there;
  }

  const std::vector<Floats>& inputs_;
  std::string rest_;
};

TEST(RingOrderTest, FloatsAreAddedInRingOrderAndAlikeOnAllRanks) {
  for (const Transport transport : {Transport::kInProcess, Transport::kTcp}) {
    for (const int n : {2, 3, 5, 8}) {
      RankGroup group({n, transport});
      const std::vector<Floats> inputs = RandomInputs(n, 1003);
      for (const Floats& output : Sums(&group, inputs)) EXPECT_EQ(output, RingOrderSum(inputs));
    }
  }
}

// Equal texts promise equal bits, and here different texts give different bits.
TEST(AdditionOrderTest, TheTextPredictsTheBitsAndWhichWaysAgree) {
  for (const int n : {3, 4, 7}) {
    const std::vector<Floats> inputs = RandomInputs(n, 203);
    std::map<std::string, Floats> by_order;
    for (const Way& way : ClassicWays()) {
      for (const int channels : {1, 2}) {
        GroupOptions options = OptionsOf(way, n);
        options.channels = channels;
        RankGroup group(options);
        const std::string order = group.at(0).AdditionOrder(203);
        for (int rank = 0; rank < group.n(); ++rank) {
          EXPECT_EQ(group.at(rank).AdditionOrder(203), order);
        }
        const Floats predicted = Prediction(inputs).Of(order);
        const std::vector<Floats> outputs = Sums(&group, inputs);
        for (const Floats& output : outputs) {
          EXPECT_EQ(output, predicted) << NameOf(way) << " of " << n << ": " << order;
        }
        by_order.try_emplace(order, predicted);
      }
    }
    // Rank order (naive and the servers), a ring, two rings, a tree; three ranks' tree is rank
    // order.
    EXPECT_EQ(by_order.size(), n == 3 ? 3U : 4U);
    for (const auto& [order, sums] : by_order) {
      for (const auto& [other, other_sums] : by_order) {
        EXPECT_EQ(sums == other_sums, order == other) << order << " and " << other;
      }
    }
  }
}

// CASES R25: the sum is 2; what comes out depends on the order, as its text says.
TEST(AdditionOrderTest, CancellingValuesGiveWhatTheOrderSays) {
  const std::vector<Floats> inputs = {{1e8F}, {1.0F}, {-1e8F}, {1.0F}};
  std::map<std::string, float> sums;
  for (const Way& way : AllWays()) {
    RankGroup group(OptionsOf(way, 4));
    const std::string order = group.at(0).AdditionOrder(1);
    for (const Floats& output : Sums(&group, inputs)) {
      EXPECT_EQ(output, Prediction(inputs).Of(order)) << NameOf(way) << ": " << order;
      sums[order] = output[0];
    }
  }
  EXPECT_EQ(sums.at("0-0: ((g0+g1)+g2)+g3"), 1.0F);
  EXPECT_GT(sums.size(), 1U);
}

struct RoundCase {
  Way way;
  Transport transport;
};
class RoundTest : public testing::TestWithParam<RoundCase> {};

// One rank's random numbers of one round: f32, or any finite f16.
std::vector<std::byte> RandomBytes(uint32_t seed, Dtype dtype, size_t length) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(length * static_cast<size_t>(SizeOf(dtype)));
  if (dtype == Dtype::kF32) {
    const Floats values = RandomFloats(seed, length);
    const auto view = std::as_bytes(std::span(values));
    return {view.begin(), view.end()};
  }
  for (size_t i = 0; i < length; ++i) {
    const auto drawn = static_cast<uint32_t>(random());
    const auto half = static_cast<uint16_t>((drawn & 0x83ffU) | ((drawn >> 16) % 30 << 10));
    std::memcpy(bytes.data() + 2 * i, &half, sizeof(half));
  }
  return bytes;
}

// CASES R24: the same hash on all ranks, round after round. Three ranks: with two, addition
// commutes, which proves nothing.
TEST_P(RoundTest, TheHashIsTheSameOnAllRanks) {
  constexpr int kRanks = 3;
  const int rounds = kFullTier ? 1000 : 100;
  GroupOptions options = OptionsOf(GetParam().way, kRanks);
  options.transport = GetParam().transport;
  options.limits.chunk_bytes = 256;
  RankGroup group(options);
  std::vector<std::vector<uint64_t>> hashes(static_cast<size_t>(group.n()));
  ExpectAllOk(group.Run([&](int rank, Communicator& communicator) {
    std::mt19937 shared(1);  // the same on every rank
    for (int round = 0; round < rounds; ++round) {
      const Dtype dtype = shared() % 2 == 0 ? Dtype::kF32 : Dtype::kF16;
      const size_t length = shared() % 300;
      const auto seed = static_cast<uint32_t>(round * kRanks + rank);
      std::vector<std::byte> data = RandomBytes(seed, dtype, length);
      RETURN_IF_ERROR(
          communicator.AllReduce(data.data(), static_cast<int64_t>(length), dtype, ReduceOp::kSum));
      hashes[static_cast<size_t>(rank)].push_back(Fingerprint64(data));
    }
    return absl::OkStatus();
  }));
  ASSERT_EQ(hashes[0].size(), static_cast<size_t>(rounds));
  EXPECT_EQ(hashes[1], hashes[0]);
  EXPECT_EQ(hashes[2], hashes[0]);
}

std::vector<RoundCase> RoundCases() {
  std::vector<RoundCase> cases;
  for (const Way& way : AllWays()) {
    cases.push_back({way, Transport::kInProcess});
    cases.push_back({way, Transport::kTcp});
  }
  return cases;
}
std::string RoundName(const testing::TestParamInfo<RoundCase>& info) {
  return absl::StrCat(NameOf(info.param.way), NameOf(info.param.transport));
}
INSTANTIATE_TEST_SUITE_P(All, RoundTest, testing::ValuesIn(RoundCases()), RoundName);

}  // namespace
}  // namespace lockstep
