// Many operands in one pass: the bits of repeated folds, for every number of sources and targets.
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/numeric/fold.h"
#include "tests/base/numeric_values.h"

namespace lockstep {
namespace {

using Bytes = std::vector<std::byte>;
using Case = std::tuple<Dtype, ReduceOp, Isa>;

constexpr Dtype kDtypes[] = {Dtype::kF32,  Dtype::kI64, Dtype::kF64, Dtype::kF16,
                             Dtype::kBf16, Dtype::kI32, Dtype::kU8};
constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProd};
constexpr size_t kShift = 3;  // no element is aligned

class FoldAllTest : public testing::TestWithParam<Case> {
 protected:
  Dtype dtype() const { return std::get<0>(GetParam()); }
  ReduceOp op() const { return std::get<1>(GetParam()); }
  Isa isa() const { return std::get<2>(GetParam()); }

  // Any bits; a byte of the shift and one behind must stay.
  std::vector<Bytes> Inputs(size_t n, int64_t count) const {
    uint64_t state = static_cast<uint64_t>(count) + n;
    std::vector<Bytes> inputs(n);
    for (Bytes& input : inputs) {
      input.resize(kShift + static_cast<size_t>(count * SizeOf(dtype())) + 1);
      for (std::byte& byte : input) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        byte = static_cast<std::byte>(state >> 56);
      }
    }
    return inputs;
  }
  Bytes Repeated(const std::vector<Bytes>& inputs, int64_t count) const {
    Bytes sum = inputs[0];
    for (size_t i = 1; i < inputs.size(); ++i) {
      Fold(dtype(), op(), inputs[i].data() + kShift, sum.data() + kShift, count, isa());
    }
    return sum;
  }
};

std::string CaseName(const testing::TestParamInfo<Case>& info) {
  return absl::StrCat(NameOf(std::get<0>(info.param)), "_", NameOf(std::get<1>(info.param)), "_",
                      NameOf(std::get<2>(info.param)));
}
INSTANTIATE_TEST_SUITE_P(All, FoldAllTest,
                         testing::Combine(testing::ValuesIn(kDtypes), testing::ValuesIn(kOps),
                                          testing::ValuesIn(SupportedIsas())),
                         CaseName);

TEST_P(FoldAllTest, InPlaceGivesTheBitsOfRepeatedFoldsEverywhere) {
  const int64_t strip = 512 / SizeOf(dtype());
  for (const size_t n : {1U, 2U, 3U, 5U, 8U}) {
    for (const int64_t count :
         {int64_t{0}, int64_t{1}, strip - 1, strip, strip + 1, 3 * strip + 7}) {
      std::vector<Bytes> buffers = Inputs(n, count);
      const std::vector<Bytes> inputs = buffers;
      const Bytes expected = Repeated(inputs, count);
      std::vector<const std::byte*> sources;
      std::vector<std::byte*> targets;
      for (Bytes& buffer : buffers) {
        sources.push_back(buffer.data() + kShift);
        targets.push_back(buffer.data() + kShift);
      }
      FoldAll(dtype(), op(), {sources, targets}, count, isa());
      for (size_t i = 0; i < n; ++i) {
        Bytes whole = expected;  // what lies around is the buffer's own
        std::copy_n(inputs[i].begin(), kShift, whole.begin());
        whole.back() = inputs[i].back();
        EXPECT_EQ(buffers[i], whole) << n << " sources, count " << count << ", target " << i;
      }
    }
  }
}

TEST_P(FoldAllTest, SourcesThatAreNoTargetsStayAsTheyWere) {
  const std::vector<Bytes> inputs = Inputs(3, 1000);
  Bytes target = inputs[0];
  const std::vector<const std::byte*> sources = {
      inputs[0].data() + kShift, inputs[1].data() + kShift, inputs[2].data() + kShift};
  const std::vector<std::byte*> targets = {target.data() + kShift};
  FoldAll(dtype(), op(), {sources, targets}, 1000, isa());
  EXPECT_EQ(target, Repeated(inputs, 1000));
  EXPECT_EQ(inputs, Inputs(3, 1000));
}

}  // namespace
}  // namespace lockstep
