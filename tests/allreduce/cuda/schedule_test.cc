// What a kernel does is what its algorithm's schedule says: the same moves in the same order, and
// so the same additions, to the bit. The schedules are the specification; the kernels are written
// by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ostream>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "allreduce/schedule/direct.h"
#include "allreduce/schedule/double_tree.h"
#include "allreduce/schedule/naive.h"
#include "allreduce/schedule/order.h"
#include "allreduce/schedule/ring.h"
#include "allreduce/schedule/tree.h"
#include "base/numeric/convert.h"
#include "base/numeric/fold.h"
#include "tests/allreduce/cuda/host_group.h"
#include "tests/allreduce/cuda/kernel_data.h"
#include "tests/allreduce/cuda/kernel_name.h"

namespace lockstep::gpu {
namespace {

constexpr int32_t kChannels = 2;
constexpr int kOwn = Noted::kOwn;

KernelSpec SpecOf(Kernel kernel, int32_t ranks) {
  return {.kernel = kernel,
          .world_size = ranks,
          .channels = kChannels,
          .slots = 3,
          .slot_bytes = 1024,
          .packet_bytes = kernel == Kernel::kPacket ? 64 * 1024 : 0};
}

Schedule ScheduleOf(Kernel kernel, int32_t ranks) {
  switch (kernel) {
    case Kernel::kRing:
      return *MakeRing({.world_size = ranks, .channels = kChannels});
    case Kernel::kTree:
      return *MakeTree({.world_size = ranks, .channels = kChannels});
    case Kernel::kDoubleTree:
      return *MakeDoubleTree({.world_size = ranks, .channels = kChannels});
    case Kernel::kDirect:
      return *MakeDirect({.world_size = ranks, .channels = kChannels});
    case Kernel::kPull:
    case Kernel::kPacket:
      return *MakeNaive({.world_size = ranks, .channels = kChannels});
  }
  return {};
}

// One value: where it is read and summed, and where it is stored.
struct Step {
  int32_t chunk = 0;
  std::vector<int32_t> sources;
  std::vector<int32_t> targets;
  bool operator==(const Step&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Step& step) {
  return out << "chunk " << step.chunk << ": " << testing::PrintToString(step.sources) << " -> "
             << testing::PrintToString(step.targets);
}

std::vector<Step> StepsOf(const BlockRecord& block, int64_t tile) {
  std::vector<Step> steps;
  for (const Noted& noted : block.notes) {
    if (noted.tile != tile) continue;
    steps.push_back({noted.chunk,
                     {noted.source, noted.source + noted.sources},
                     {noted.target, noted.target + noted.targets}});
  }
  return steps;
}

std::vector<BlockRecord> RunOnce(Kernel kernel, int32_t ranks, int64_t count) {
  HostGroup group(SpecOf(kernel, ranks));
  const KernelData data(ranks, {.count = count}, 0);
  std::vector<BlockRecord> records = group.Run({data.call()}, {});
  EXPECT_TRUE(data.AllRight());
  return records;
}

constexpr int64_t kThreeTiles = int64_t{3} * 256;  // elements of a slot
constexpr int64_t kTiles = 3;

TEST(RingKernelTest, MakesTheMovesOfItsSchedule) {
  for (const int32_t ranks : {2, 3, 4, 5, 8}) {
    const Schedule schedule = ScheduleOf(Kernel::kRing, ranks);
    for (const BlockRecord& block :
         RunOnce(Kernel::kRing, ranks, kThreeTiles * ranks * kChannels)) {
      const Lane& lane =
          schedule.ranks[static_cast<size_t>(block.rank)][static_cast<size_t>(block.index)];
      std::vector<Step> expected;
      for (const Move& move : lane.moves) {
        Step step{move.in == kNone ? move.out : move.in, {}, {}};
        if (move.recv_from != kNone) step.sources.push_back(move.recv_from);
        if (move.in != kNone) step.sources.push_back(kOwn);
        if (move.out != kNone) step.targets.push_back(kOwn);
        if (move.send_to != kNone) step.targets.push_back(move.send_to);
        expected.push_back(step);
      }
      for (int64_t tile = 0; tile < kTiles; ++tile) {
        EXPECT_EQ(StepsOf(block, tile), expected) << ranks << " ranks, rank " << block.rank;
      }
    }
  }
}

// A schedule's moves of one chunk up or down the tree, one child at a time, as the one step that
// the kernel makes of them.
Step Fused(const Lane* up, const Lane* down) {
  Step step;
  bool keeps = down != nullptr;
  if (up != nullptr) {
    step.sources.push_back(kOwn);
    for (const Move& move : up->moves) {
      step.chunk = move.in;
      if (move.recv_from != kNone) step.sources.push_back(move.recv_from);
      if (move.send_to != kNone) step.targets.push_back(move.send_to);
    }
  }
  if (down != nullptr) {
    for (const Move& move : down->moves) {
      step.chunk = move.in == kNone ? move.out : move.in;
      if (move.recv_from != kNone) step.sources.push_back(move.recv_from);
      if (move.send_to != kNone) step.targets.push_back(move.send_to);
    }
  }
  if (keeps) step.targets.insert(step.targets.begin(), kOwn);
  return step;
}

class TreeKernelTest : public testing::TestWithParam<Kernel> {};

TEST_P(TreeKernelTest, MakesTheMovesOfItsSchedule) {
  for (const int32_t ranks : {2, 3, 4, 5, 8, 13}) {
    const Schedule schedule = ScheduleOf(GetParam(), ranks);
    const auto trees = static_cast<size_t>(schedule.chunks);
    for (const BlockRecord& block :
         RunOnce(GetParam(), ranks, kThreeTiles * static_cast<int64_t>(trees))) {
      const std::vector<Lane>& lanes = schedule.ranks[static_cast<size_t>(block.rank)];
      ASSERT_EQ(lanes.size(), 2 * trees);
      const std::vector<Step> made = StepsOf(block, 0);
      ASSERT_EQ(made.size(), 1U);
      const auto tree = static_cast<size_t>(made[0].chunk);
      const Lane& up = lanes[tree];
      const Lane& down = lanes[trees + tree];
      const bool is_root = std::none_of(down.moves.begin(), down.moves.end(),
                                        [](const Move& move) { return move.recv_from != kNone; });
      const bool is_up = made[0].sources[0] == kOwn;
      const Step expected =
          is_root ? Fused(&up, &down) : Fused(is_up ? &up : nullptr, is_up ? nullptr : &down);
      for (int64_t tile = 0; tile < kTiles; ++tile) {
        EXPECT_EQ(StepsOf(block, tile), std::vector<Step>{expected})
            << ranks << " ranks, rank " << block.rank;
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Trees, TreeKernelTest, testing::Values(Kernel::kTree, Kernel::kDoubleTree),
                         KernelName);

using Message = std::tuple<int32_t, int32_t, int32_t>;  // sender, receiver, chunk

std::vector<Message> MessagesOf(const Schedule& schedule) {
  std::vector<Message> messages;
  for (int32_t rank = 0; rank < schedule.world_size; ++rank) {
    for (const Lane& lane : schedule.ranks[static_cast<size_t>(rank)]) {
      for (const Move& move : lane.moves) {
        if (move.send_to != kNone) messages.emplace_back(rank, move.send_to, move.in);
      }
    }
  }
  return messages;
}

class OneStepKernelTest : public testing::TestWithParam<Kernel> {};

TEST_P(OneStepKernelTest, ExchangesWhatItsScheduleDoes) {
  for (const int32_t ranks : {2, 3, 4, 5, 8}) {
    std::vector<Message> messages;
    for (const BlockRecord& block : RunOnce(GetParam(), ranks, 4000)) {
      for (const Step& step : StepsOf(block, 0)) {
        for (const int32_t peer : step.sources) {
          if (peer != kOwn) messages.emplace_back(peer, block.rank, step.chunk);
        }
        for (const int32_t peer : step.targets) {
          if (peer != kOwn) messages.emplace_back(block.rank, peer, step.chunk);
        }
      }
    }
    EXPECT_THAT(messages,
                testing::UnorderedElementsAreArray(MessagesOf(ScheduleOf(GetParam(), ranks))))
        << ranks << " ranks";
  }
}
INSTANTIATE_TEST_SUITE_P(OneStep, OneStepKernelTest,
                         testing::Values(Kernel::kDirect, Kernel::kPull, Kernel::kPacket),
                         KernelName);

// Adds as an AdditionTree says, one rounding for each "+".  NOLINTBEGIN(misc-no-recursion)
class TreeSum {
 public:
  TreeSum(std::string text, Dtype dtype, std::vector<const std::byte*> inputs, int64_t count)
      : text_(std::move(text)), dtype_(dtype), inputs_(std::move(inputs)), count_(count) {}

  std::vector<std::byte> Result() {
    std::vector<std::byte> left = Term();
    if (at_ == text_.size() || text_[at_] != '+') return left;
    ++at_;
    const std::vector<std::byte> right = Term();
    Fold(dtype_, ReduceOp::kSum, right.data(), left.data(), count_);
    return left;
  }

 private:
  std::vector<std::byte> Term() {
    if (text_[at_] == '(') {
      ++at_;
      std::vector<std::byte> inner = Result();
      ++at_;  // ')'
      return inner;
    }
    size_t digits = 0;
    const auto rank = static_cast<size_t>(std::stoi(text_.substr(at_ + 1), &digits));
    at_ += 1 + digits;
    return {inputs_[rank], inputs_[rank] + count_ * SizeOf(dtype_)};
  }

  const std::string text_;
  const Dtype dtype_;
  const std::vector<const std::byte*> inputs_;
  const int64_t count_;
  size_t at_ = 0;
};
// NOLINTEND(misc-no-recursion)

// Values whose sums are rounded, so that another order would show.
std::vector<float> RandomFloats(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> mantissa(-1, 1);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = std::ldexp(mantissa(random), static_cast<int>(random() % 9));
  return values;
}

// Runs `kernel` on random values and returns the output of every rank, and the inputs.
struct RandomRun {
  RandomRun(Kernel kernel, int32_t ranks, int64_t count, Dtype type) : dtype(type) {
    const auto bytes = static_cast<size_t>(count * SizeOf(dtype));
    HostCall call{.spec = {.count = count, .dtype = dtype}, .inputs = {}, .outputs = {}};
    for (int32_t rank = 0; rank < ranks; ++rank) {
      const std::vector<float> values = RandomFloats(count, static_cast<uint32_t>(rank + 1));
      std::vector<std::byte>& input = inputs.emplace_back(bytes);
      if (dtype == Dtype::kF32) {
        std::memcpy(input.data(), values.data(), bytes);
      } else {
        Convert(Dtype::kF32, values.data(), dtype, input.data(), count);
      }
      outputs.emplace_back(bytes);
    }
    for (const std::vector<std::byte>& input : inputs) call.inputs.push_back(input.data());
    for (std::vector<std::byte>& output : outputs) call.outputs.push_back(output.data());
    HostGroup group(SpecOf(kernel, ranks));
    for (const BlockRecord& block : group.Run({call}, {.threads_per_block = 2})) {
      EXPECT_EQ(block.report.outcome, Outcome::kDone);
    }
  }

  std::vector<const std::byte*> InputsAt(int64_t element) const {
    std::vector<const std::byte*> at;
    for (const auto& input : inputs) at.push_back(input.data() + element * SizeOf(dtype));
    return at;
  }

  const Dtype dtype;
  std::vector<std::vector<std::byte>> inputs;
  std::vector<std::vector<std::byte>> outputs;
};

void ExpectBitsOfSchedule(Kernel kernel, int32_t ranks, Dtype dtype) {
  constexpr int64_t kCount = 5003;
  const Schedule schedule = ScheduleOf(kernel, ranks);
  const RandomRun run(kernel, ranks, kCount, dtype);
  const Cut cut = CutOf(SpecOf(kernel, ranks), kCount, SizeOf(dtype));
  std::vector<std::byte> expected;
  for (int32_t chunk = 0; chunk < schedule.chunks; ++chunk) {
    const Piece piece = cut.OfChunk(chunk);
    ASSERT_EQ(piece.first * SizeOf(dtype), static_cast<int64_t>(expected.size()));
    TreeSum sum(AdditionTree(schedule, chunk), dtype, run.InputsAt(piece.first), piece.count);
    const std::vector<std::byte> part = sum.Result();
    expected.insert(expected.end(), part.begin(), part.end());
  }
  for (const std::vector<std::byte>& output : run.outputs) {
    EXPECT_EQ(output, expected) << NameOf(kernel) << ", " << ranks << " ranks";
  }
}

class KernelBitsTest : public testing::TestWithParam<Kernel> {};

TEST_P(KernelBitsTest, AreThoseOfTheSchedulesAdditions) {
  for (const int32_t ranks : {2, 3, 5, 8}) ExpectBitsOfSchedule(GetParam(), ranks, Dtype::kF32);
}
INSTANTIATE_TEST_SUITE_P(Kernels, KernelBitsTest, testing::ValuesIn(kKernels), KernelName);

// A ring's step adds two values, so its f16 and bf16 are rounded as the schedule's are, hop by hop.
TEST(KernelHalfTest, TheRingRoundsAtEveryHop) {
  for (const Dtype dtype : {Dtype::kF16, Dtype::kBf16}) {
    ExpectBitsOfSchedule(Kernel::kRing, 5, dtype);
  }
}

// The others sum a step's values in f32 and round once.
TEST(KernelHalfTest, OneStepKernelsRoundOnce) {
  constexpr int64_t kCount = 5003;
  for (const Dtype dtype : {Dtype::kF16, Dtype::kBf16}) {
    for (const Kernel kernel : {Kernel::kDirect, Kernel::kPull, Kernel::kPacket}) {
      const RandomRun run(kernel, 5, kCount, dtype);
      std::vector<float> sum(kCount);
      std::vector<float> next(kCount);
      Convert(dtype, run.inputs[0].data(), Dtype::kF32, sum.data(), kCount);
      for (size_t rank = 1; rank < run.inputs.size(); ++rank) {
        Convert(dtype, run.inputs[rank].data(), Dtype::kF32, next.data(), kCount);
        Fold(Dtype::kF32, ReduceOp::kSum, next.data(), sum.data(), kCount);
      }
      std::vector<std::byte> expected(static_cast<size_t>(kCount * SizeOf(dtype)));
      Convert(Dtype::kF32, sum.data(), dtype, expected.data(), kCount);
      for (const std::vector<std::byte>& output : run.outputs) {
        EXPECT_EQ(output, expected) << NameOf(kernel) << " " << NameOf(dtype);
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::gpu
