// Every algorithm of every collective on the executor, against two references that share no code
// with it: numbers whose result needs no order of additions, and any bits against a plain run of
// the schedule. The product of algorithm, operation, dtype, length and ranks in the full tier, a
// part of it in the quick one.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "allreduce/schedule/verify.h"
#include "tests/allreduce/elements.h"
#include "tests/allreduce/in_step.h"
#include "tests/allreduce/plain_cases.h"
#include "tests/allreduce/plain_run.h"
#include "tests/allreduce/tier.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using Bytes = std::vector<std::byte>;

struct Call {
  Dtype dtype = Dtype::kF32;
  ReduceOp op = ReduceOp::kSum;
  int64_t length = 0;
  int64_t tile_bytes = 16;  // short calls have tiles, too, and a tile's edge in every chunk
};
std::string NameOf(const Call& call) {
  return absl::StrCat(NameOf(call.dtype), " ", NameOf(call.op), " of ", call.length);
}

// One schedule on executors that live as long as the test.
class Subject {
 public:
  explicit Subject(const ScheduleSpec& spec, Transport transport = Transport::kInProcess,
                   bool late_sends = false)
      : spec_(spec),
        schedule_(*MakeSchedule(spec)),
        goal_(*GoalOf(spec.collective, schedule_, spec.root)),
        group_(schedule_, LinkChannelsOf(spec), transport, late_sends) {}

  // Results that no order of additions changes, from a loop over the ranks.
  void ExpectTheSum(const Call& call) {
    const std::vector<Bytes> inputs = SmallNumbers(call);
    std::vector<Bytes> expected = inputs;
    const int64_t size = SizeOf(call.dtype);
    const PlainRun plain(schedule_, call.length, call.dtype, call.op);
    for (int32_t chunk = 0; chunk < schedule_.chunks; ++chunk) {
      const int64_t first = plain.First(chunk);
      const int64_t count = plain.First(chunk + 1) - first;
      Bytes sum;
      for (size_t rank = 0; rank < inputs.size(); ++rank) {
        if (goal_.holds[rank][static_cast<size_t>(chunk)] == 0) continue;
        const auto begin = inputs[rank].begin() + first * size;
        const Bytes part(begin, begin + count * size);
        if (sum.empty()) {
          sum = part;
        } else {
          Fold(call.dtype, call.op, part.data(), sum.data(), count);
        }
      }
      for (Bytes& of_rank : expected) {
        std::copy(sum.begin(), sum.end(), of_rank.begin() + first * size);
      }
    }
    ExpectRun(call, inputs, expected);
  }

  // The bits of a plain run. Ranks that want a result have the same one.
  void ExpectThePlainRun(const Call& call, uint64_t seed) {
    std::vector<Bytes> inputs;
    for (int rank = 0; rank < schedule_.world_size; ++rank) {
      inputs.push_back(AnyBits(seed + static_cast<uint64_t>(rank), call.dtype, call.length));
    }
    std::vector<Bytes> expected = inputs;
    PlainRun(schedule_, call.length, call.dtype, call.op).Run(&expected);
    ExpectRun(call, inputs, expected);
    if (spec_.collective != Collective::kAllReduce) return;
    for (int rank = 1; rank < schedule_.contributors; ++rank) {
      EXPECT_EQ(expected[static_cast<size_t>(rank)], expected[0]) << NameOf(call);
    }
  }

 private:
  // Sums below 2^8, products below 2^14: exact in every dtype, or they wrap.
  std::vector<Bytes> SmallNumbers(const Call& call) const {
    std::vector<Bytes> inputs;
    for (int64_t rank = 0; rank < schedule_.world_size; ++rank) {
      Bytes& input = inputs.emplace_back(static_cast<size_t>(call.length * SizeOf(call.dtype)));
      for (int64_t i = 0; i < call.length; ++i) {
        const int64_t draw = (i * 7 + rank * 5 + i * rank) % 13;
        PutElement(call.dtype, call.op == ReduceOp::kProd ? 1 + draw % 2 : draw, i, input.data());
      }
    }
    return inputs;
  }

  void ExpectRun(const Call& call, const std::vector<Bytes>& inputs,
                 const std::vector<Bytes>& expected) {
    std::vector<GuardedBuffer> buffers;
    std::vector<std::byte*> data;
    for (const Bytes& input : inputs) {
      buffers.emplace_back(static_cast<int64_t>(input.size()));
      std::copy(input.begin(), input.end(), buffers.back().data());
    }
    for (GuardedBuffer& buffer : buffers) data.push_back(buffer.data());
    ExecuteCall execute;
    execute.count = call.length;
    execute.dtype = call.dtype;
    execute.op = call.op;
    execute.tile_bytes = call.tile_bytes;
    execute.message_bytes_max = int64_t{64} << 20;
    ASSERT_THAT(group_.Run(execute, data), IsOk()) << NameOf(call);
    for (size_t rank = 0; rank < inputs.size(); ++rank) {
      EXPECT_TRUE(buffers[rank].Intact()) << NameOf(call) << ", rank " << rank;
      EXPECT_TRUE(Agrees(call, rank, data[rank], expected[rank]))
          << NameOf(call) << ", rank " << rank;
    }
  }

  // Where the rank wants a result.
  bool Agrees(const Call& call, size_t rank, const std::byte* data, const Bytes& expected) const {
    const PlainRun plain(schedule_, call.length, call.dtype, call.op);
    const int64_t size = SizeOf(call.dtype);
    for (int32_t chunk = 0; chunk < schedule_.chunks; ++chunk) {
      if (goal_.wants[rank][static_cast<size_t>(chunk)] == 0) continue;
      const int64_t first = plain.First(chunk) * size;
      const int64_t end = plain.First(chunk + 1) * size;
      if (!std::equal(data + first, data + end, expected.begin() + first)) return false;
    }
    return true;
  }

  const ScheduleSpec spec_;
  const Schedule schedule_;
  const Goal goal_;
  InStep group_;
};

// CASES R20-R22.
std::vector<int64_t> Lengths(int64_t n) { return {0, 1, n - 1, n, 10 * n + 3}; }

// All of them, or enough that every pair of length and dtype is there.
std::vector<Call> CallsFor(int n) {
  std::vector<Call> calls;
  size_t turn = 0;
  for (const int64_t length : Lengths(n)) {
    for (const Dtype dtype : kAllDtypes) {
      ++turn;
      for (size_t op = 0; op < kAllOps.size(); ++op) {
        if (!kFullTier && turn % kAllOps.size() != op) continue;
        calls.push_back({dtype, kAllOps[op], length});
      }
    }
  }
  return calls;
}

class ProductTest : public testing::TestWithParam<ScheduleSpec> {};

TEST_P(ProductTest, EveryBitIsThatOfTheReferences) {
  Subject subject(GetParam());
  uint64_t seed = 1;
  for (const Call& call : CallsFor(GetParam().world_size)) {
    subject.ExpectTheSum(call);
    subject.ExpectThePlainRun(call, seed += 100);
  }
}

// One tile that holds whole chunks, and tiles of one element: messages of ranges of chunks are in
// one piece, or in many.
TEST_P(ProductTest, TheTileChangesNoBit) {
  Subject subject(GetParam());
  const int64_t length = 10 * GetParam().world_size + 3;
  for (const int64_t tile_bytes : {4, 8, 12, 28, 1'024}) {
    subject.ExpectTheSum({Dtype::kF32, ReduceOp::kSum, length, tile_bytes});
    subject.ExpectThePlainRun({Dtype::kF32, ReduceOp::kSum, length, tile_bytes}, 77);
    subject.ExpectThePlainRun({Dtype::kU8, ReduceOp::kProd, 1, tile_bytes}, 78);
  }
}

// Values that are sent from where they stand must not be overwritten before they are gone.
TEST_P(ProductTest, SendsMayBeLate) {
  Subject subject(GetParam(), Transport::kInProcess, /*late_sends=*/true);
  const int64_t n = GetParam().world_size;
  for (const int64_t tile_bytes : {8, 1'024}) {
    for (const int64_t length : {n, 10 * n + 3}) {
      subject.ExpectTheSum({Dtype::kF32, ReduceOp::kSum, length, tile_bytes});
      subject.ExpectThePlainRun({Dtype::kF32, ReduceOp::kSum, length, tile_bytes}, 79);
    }
  }
}

std::vector<ScheduleSpec> Specs() {
  std::vector<ScheduleSpec> specs;
  const std::vector<int> some = {1, 2, 3, 5};
  for (const int n : kFullTier ? std::vector<int>{1, 2, 3, 4, 5, 7, 8, 13} : some) {
    for (const ScheduleSpec& spec : AllReduceSpecs(n)) specs.push_back(spec);
    for (const ScheduleSpec& spec : OtherSpecs(n)) specs.push_back(spec);
  }
  return specs;
}
std::string SpecName(const testing::TestParamInfo<ScheduleSpec>& info) {
  return NameOf(info.param);
}
INSTANTIATE_TEST_SUITE_P(All, ProductTest, testing::ValuesIn(Specs()), SpecName);

// The other links, pairwise: every two values of algorithm, ranks, dtype, operation and length meet
// in some call.
class LinkProductTest : public testing::TestWithParam<Transport> {};

TEST_P(LinkProductTest, EveryBitIsThatOfTheReferences) {
  size_t turn = 0;
  for (const int n : kFullTier ? std::vector<int>{2, 3, 4, 5, 7, 8, 13} : std::vector<int>{3}) {
    const std::vector<int64_t> lengths = Lengths(n);
    for (const ScheduleSpec& spec : AllReduceSpecs(n)) {
      SCOPED_TRACE(NameOf(spec));
      ++turn;
      Subject subject(spec, GetParam());
      for (size_t i = 0; i < kAllDtypes.size(); ++i) {
        const Call call{kAllDtypes[i], kAllOps[(i + turn) % kAllOps.size()],
                        lengths[(i + turn) % lengths.size()]};
        subject.ExpectTheSum(call);
        subject.ExpectThePlainRun(call, turn);
      }
    }
  }
}

std::string TransportName(const testing::TestParamInfo<Transport>& info) {
  return NameOf(info.param);
}
INSTANTIATE_TEST_SUITE_P(All, LinkProductTest, testing::Values(Transport::kTcp, Transport::kShm),
                         TransportName);

// CASES R24: 1,000 rounds of any bits, every dtype in turn for every algorithm. Five ranks: with
// two, addition commutes, which proves nothing, and most algorithms treat an odd one apart.
class RoundsTest : public testing::TestWithParam<ScheduleSpec> {};

TEST_P(RoundsTest, AllRanksAgreeRoundAfterRound) {
  Subject subject(GetParam());
  const int rounds = kFullTier ? 1'000 : 20;
  for (const Dtype dtype : kAllDtypes) {
    std::mt19937 random(static_cast<uint32_t>(dtype));
    for (int round = 0; round < rounds; ++round) {
      const int64_t length = random() % 100;
      const ReduceOp op = kAllOps[random() % kAllOps.size()];
      subject.ExpectThePlainRun({dtype, op, length}, random());
    }
  }
}

std::vector<ScheduleSpec> RoundSpecs() {
  std::vector<ScheduleSpec> specs = AllReduceSpecs(5);
  std::erase_if(specs, [](const ScheduleSpec& spec) { return spec.channels > 1; });
  return specs;
}
INSTANTIATE_TEST_SUITE_P(All, RoundsTest, testing::ValuesIn(RoundSpecs()), SpecName);

// CASES R22: a length that no number of ranks divides, beyond one tile of the executor's own.
class LongTest : public testing::TestWithParam<ScheduleSpec> {};

TEST_P(LongTest, ManyTilesOfTheUsualSize) {
  const int64_t length = (int64_t{1} << (kFullTier ? 20 : 17)) + 3;
  Subject subject(GetParam());
  const auto turn = static_cast<size_t>(GetParam().algorithm) +
                    static_cast<size_t>(GetParam().placement) +
                    static_cast<size_t>(GetParam().world_size);
  const Call call{kAllDtypes[turn % kAllDtypes.size()], kAllOps[turn % kAllOps.size()], length,
                  kTileBytes};
  subject.ExpectTheSum(call);
  subject.ExpectThePlainRun(call, 5);
}

std::vector<ScheduleSpec> LongSpecs() {
  std::vector<ScheduleSpec> specs;
  for (const int n : kFullTier ? std::vector<int>{3, 4, 7} : std::vector<int>{3}) {
    for (const ScheduleSpec& spec : AllReduceSpecs(n)) {
      if (spec.channels == 1) specs.push_back(spec);
    }
  }
  return specs;
}
INSTANTIATE_TEST_SUITE_P(All, LongTest, testing::ValuesIn(LongSpecs()), SpecName);

}  // namespace
}  // namespace lockstep
