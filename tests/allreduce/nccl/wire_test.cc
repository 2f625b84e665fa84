// Elements as NCCL gets them: floats as integers in the same order, integers that wrap.
#include "allreduce/nccl/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/numeric/fold.h"
#include "base/numeric/support.h"
#include "tests/allreduce/elements.h"

namespace lockstep::nccl {
namespace {

bool IsFloat(Dtype dtype) { return Supports(dtype, ReduceOp::kAvg); }

// Bits of all kinds of a float: zeros, subnormals, ones, infinities, NaNs, of both signs.
std::vector<uint64_t> Kinds(Dtype dtype) {
  const uint64_t one = ElementBits(dtype, 1);
  const auto bits = static_cast<unsigned>(8 * SizeOf(dtype));
  const uint64_t sign = uint64_t{1} << (bits - 1);
  const unsigned fraction = dtype == Dtype::kF16    ? 10
                            : dtype == Dtype::kBf16 ? 7
                            : dtype == Dtype::kF32  ? 23
                                                    : 52;
  const uint64_t infinity = sign - (uint64_t{1} << fraction);
  std::vector<uint64_t> kinds = {0,       1, one, one + 1, infinity - 1, infinity, infinity + 1,
                                 sign - 1};
  for (size_t i = 0, n = kinds.size(); i < n; ++i) kinds.push_back(kinds[i] | sign);
  return kinds;
}

int64_t KeyAt(const Wire& wire, const std::vector<std::byte>& wires, size_t index) {
  int64_t wide = 0;
  int32_t narrow = 0;
  if (wire.element_bytes == 8) std::memcpy(&wide, wires.data() + index * 8, 8);
  if (wire.element_bytes == 4) std::memcpy(&narrow, wires.data() + index * 4, 4);
  return wire.element_bytes == 8 ? wide : narrow;
}

// The integers' order gives what Fold gives, bit for bit, for each pair of kinds.
TEST(NcclWireTest, MinAndMaxOfKeysAreThoseOfFloats) {
  for (const Dtype dtype : kAllDtypes) {
    if (!IsFloat(dtype)) continue;
    const auto size = static_cast<size_t>(SizeOf(dtype));
    const std::vector<uint64_t> kinds = Kinds(dtype);
    std::vector<std::byte> stored(kinds.size() * size);
    for (size_t i = 0; i < kinds.size(); ++i)
      std::memcpy(stored.data() + i * size, &kinds[i], size);
    for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
      const Wire wire = WireOf(dtype, op);
      ASSERT_TRUE(wire.keys);
      std::vector<std::byte> wires(kinds.size() * static_cast<size_t>(wire.element_bytes));
      const WireElements all{dtype, op, static_cast<int64_t>(kinds.size())};
      ToWire(all, stored.data(), wires.data());
      for (size_t a = 0; a < kinds.size(); ++a) {
        for (size_t b = 0; b < kinds.size(); ++b) {
          const bool take_b = op == ReduceOp::kMin ? KeyAt(wire, wires, b) < KeyAt(wire, wires, a)
                                                   : KeyAt(wire, wires, b) > KeyAt(wire, wires, a);
          const std::byte* const chosen =
              wires.data() + (take_b ? b : a) * static_cast<size_t>(wire.element_bytes);
          uint64_t got = 0;
          FromWire({dtype, op, 1}, chosen, &got);
          uint64_t expected = kinds[a];
          Fold(dtype, op, &kinds[b], &expected, 1);
          EXPECT_EQ(got, expected & (~uint64_t{0} >> (64 - 8 * size)))
              << NameOf(dtype) << " " << NameOf(op) << " " << std::hex << kinds[a] << " "
              << kinds[b];
        }
      }
    }
  }
}

TEST(NcclWireTest, IntegersAreOrderedSignedAndSummedUnsigned) {
  EXPECT_EQ(WireOf(Dtype::kI32, ReduceOp::kSum).type, kUint32);
  EXPECT_EQ(WireOf(Dtype::kI64, ReduceOp::kProd).type, kUint64);
  EXPECT_EQ(WireOf(Dtype::kI32, ReduceOp::kMin).type, kInt32);
  EXPECT_EQ(WireOf(Dtype::kI64, ReduceOp::kMax).type, kInt64);
  EXPECT_EQ(WireOf(Dtype::kU8, ReduceOp::kMax).type, kUint8);
  EXPECT_FALSE(WireOf(Dtype::kI32, ReduceOp::kMin).keys);
}

TEST(NcclWireTest, SumsAreNcclsOwn) {
  EXPECT_EQ(WireOf(Dtype::kF32, ReduceOp::kSum).type, kFloat32);
  EXPECT_EQ(WireOf(Dtype::kF64, ReduceOp::kSum).type, kFloat64);
  EXPECT_EQ(WireOf(Dtype::kF16, ReduceOp::kProd).type, kFloat16);
  EXPECT_EQ(WireOf(Dtype::kBf16, ReduceOp::kSum).type, kBfloat16);
}

}  // namespace
}  // namespace lockstep::nccl
