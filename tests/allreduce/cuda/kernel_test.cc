// The kernels' own source on threads of the host: results exact and the same on every rank, nothing
// written beside them, traffic as counted. No GPU and no CUDA toolkit are needed.
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "tests/allreduce/cuda/host_group.h"
#include "tests/allreduce/cuda/kernel_data.h"
#include "tests/allreduce/cuda/kernel_name.h"
#include "tests/allreduce/tier.h"

namespace lockstep::gpu {
namespace {

constexpr int64_t kPacketBytes = int64_t{128} << 10;
constexpr int64_t kSlotBytes = int64_t{16} << 10;

struct Case {
  KernelSpec spec;
  CallSpec call;
  int threads = 1;
  int64_t misaligned = 0;
  bool in_place = false;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << NameOf(c.spec.kernel) << " R=" << c.spec.world_size << " C=" << c.spec.channels
             << " W=" << c.threads << " slots=" << c.spec.slots << " n=" << c.call.count << " "
             << NameOf(c.call.dtype) << " " << NameOf(c.call.op) << " misaligned by "
             << c.misaligned << (c.in_place ? " in place" : "");
}

void ExpectExact(Case c) {
  if (c.spec.kernel == Kernel::kPacket) {
    const int64_t bytes = c.call.count * SizeOf(c.call.dtype);
    c.spec.packet_bytes = (bytes + kPackBytes - 1) / kPackBytes * kPackBytes;
  }
  HostGroup group(c.spec);
  ASSERT_EQ(FaultOf(c.spec, c.call, c.in_place), "") << c;
  KernelData first(c.spec.world_size, c.call, c.misaligned, c.in_place);
  CallSpec shorter = c.call;  // two calls in a row: slots, flags and halves are used again
  shorter.count = c.call.count / 2;
  KernelData second(c.spec.world_size, shorter, c.misaligned, c.in_place);
  const std::vector<BlockRecord> records =
      group.Run({first.call(), second.call()}, {.threads_per_block = c.threads});
  for (const BlockRecord& block : records) {
    ASSERT_EQ(block.report.outcome, Outcome::kDone) << c << ": rank " << block.rank;
  }
  EXPECT_TRUE(first.AllRight()) << c;
  EXPECT_TRUE(second.AllRight()) << c << ", second call";
}

KernelSpec SpecOf(Kernel kernel, int32_t ranks, int32_t channels, int32_t slots = 2) {
  return {.kernel = kernel,
          .world_size = ranks,
          .channels = channels,
          .slots = slots,
          .slot_bytes = kSlotBytes,
          .packet_bytes = kernel == Kernel::kPacket ? kPacketBytes : 0};
}

// Who has no connections has no slots to vary.
int32_t SlotsMax(Kernel kernel) {
  const bool connected =
      kernel == Kernel::kRing || kernel == Kernel::kTree || kernel == Kernel::kDoubleTree;
  return connected ? 8 : 2;
}

class EveryKernelTest : public testing::TestWithParam<Kernel> {};

TEST_P(EveryKernelTest, IsExactForEveryGroupAndLength) {
  for (const int32_t ranks : {1, 2, 3, 4, 5, 8}) {
    for (const int32_t channels : {1, 2}) {
      for (const int threads : {1, 2}) {
        for (int32_t slots = 2; slots <= SlotsMax(GetParam()); slots += kFullTier ? 1 : 5) {
          for (const int64_t count : {0, 1, 3, ranks - 1, 4097, 200'003}) {
            if (!kFullTier && (ranks == 4 || (count > 4097 && channels + ranks > 4))) continue;
            ExpectExact({SpecOf(GetParam(), ranks, channels, slots), {.count = count}, threads});
          }
        }
      }
    }
  }
}

TEST_P(EveryKernelTest, IsExactForEveryDtypeAndOp) {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kF16, Dtype::kBf16, Dtype::kI32, Dtype::kI64}) {
    for (const ReduceOp op :
         {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProd}) {
      if (op == ReduceOp::kAvg && (dtype == Dtype::kI32 || dtype == Dtype::kI64)) continue;
      ExpectExact({SpecOf(GetParam(), 3, 2), {.count = 503, .dtype = dtype, .op = op}, 2});
    }
  }
}

TEST_P(EveryKernelTest, TakesAnyAddress) {
  for (const int64_t misaligned : {1, 2, 4, 6, 8, 15}) {
    for (const Dtype dtype : {Dtype::kF32, Dtype::kBf16, Dtype::kI64}) {
      ExpectExact({SpecOf(GetParam(), 3, 1), {.count = 503, .dtype = dtype}, 2, misaligned});
    }
  }
}

TEST_P(EveryKernelTest, WorksInPlaceOrRefuses) {
  const CallSpec call{.count = 40'003};
  const KernelSpec spec = SpecOf(GetParam(), 4, 2);
  if (GetParam() == Kernel::kPull) {
    EXPECT_EQ(FaultOf(spec, call, /*in_place=*/true),
              "pull: reads inputs while others write outputs: they must be different memory");
    return;
  }
  ExpectExact({spec, call, 2, 0, /*in_place=*/true});
}

// Elements read or written, slots, packets and their flags included, for each element of the data.
int64_t Traffic(Kernel kernel, int64_t ranks) {
  switch (kernel) {
    case Kernel::kRing:
    case Kernel::kTree:
    case Kernel::kDoubleTree:
      return 6 * ranks - 4;
    case Kernel::kDirect:
      return 2 * ranks;
    case Kernel::kPull:
      return ranks * (ranks + 1);
    case Kernel::kPacket:
      return ranks * (4 * ranks - 2);
  }
  return 0;
}

TEST_P(EveryKernelTest, MovesAsMuchAsItsFormula) {
  for (const int32_t ranks : {1, 2, 3, 4, 5, 8}) {
    for (const int64_t misaligned : {0, 4}) {
      const CallSpec call{.count = 8000};
      HostGroup group(SpecOf(GetParam(), ranks, 2));
      const KernelData data(ranks, call, misaligned);
      int64_t bytes = 0;
      for (const BlockRecord& block : group.Run({data.call()}, {})) bytes += block.bytes;
      EXPECT_EQ(bytes, Traffic(GetParam(), ranks) * call.count * SizeOf(call.dtype))
          << NameOf(GetParam()) << " R=" << ranks << " misaligned by " << misaligned;
    }
  }
}

TEST_P(EveryKernelTest, SurvivesManyCallsOfDifferentLengths) {
  const KernelSpec spec = SpecOf(GetParam(), 4, 2);
  HostGroup group(spec);
  std::vector<KernelData> data;
  std::vector<HostCall> calls;
  for (const int64_t count : {5000, 1, 0, 20'001, 3, 0, 4097, 64}) {
    data.emplace_back(spec.world_size, CallSpec{.count = count}, 0);
    calls.push_back(data.back().call());
  }
  for (int round = 0; round < 2; ++round) {
    for (const BlockRecord& block : group.Run(calls, {.threads_per_block = 2})) {
      ASSERT_EQ(block.report.outcome, Outcome::kDone);
    }
  }
  for (const KernelData& call : data) EXPECT_TRUE(call.AllRight());
}

INSTANTIATE_TEST_SUITE_P(Kernels, EveryKernelTest, testing::ValuesIn(kKernels), KernelName);

}  // namespace
}  // namespace lockstep::gpu
