#include "ps_server/core/push_sum.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "base/numeric/exact.h"
#include "base/numeric/fold.h"

namespace lockstep {
namespace {

// The pushes' elements of one block of one tensor.
struct Block {
  std::span<float* const> pushes;
  int64_t offset = 0;  // in the shard
  int64_t count = 0;   // <= kBlockElements

  std::span<float> values(size_t push) const {
    return {pushes[push] + offset, static_cast<size_t>(count)};
  }
};

int32_t SharedExponent(const Block& block) {
  int32_t shared = kZeroBlock;
  for (size_t r = 0; r < block.pushes.size(); ++r) {
    int32_t exponent = kZeroBlock;
    ExactExponents(Dtype::kF32, block.values(r).data(), {&block.count, 1}, {&exponent, 1});
    shared = std::max(shared, exponent);
  }
  return shared;
}

void SumBlock(const Block& block, int32_t exponent, float divisor) {
  const auto world_size = static_cast<int32_t>(block.pushes.size());
  std::array<int64_t, kBlockElements> sums{};
  const std::span<int64_t> quantised(sums.data(), static_cast<size_t>(block.count));
  for (size_t r = 0; r < block.pushes.size(); ++r) {
    ExactQuantise(Dtype::kF32, block.values(r).data(), {&block.count, 1}, {&exponent, 1},
                  {.world_size = world_size, .add = r > 0}, quantised);
  }
  ExactRestore(Dtype::kF32, quantised, {&block.count, 1}, {&exponent, 1},
               {.world_size = world_size, .divisor = divisor}, block.values(0).data());
}

// REQUIRES: the block has such a value. `start`: elements from the start of the tensor.
NonFiniteValue FirstNonFinite(const Block& block, int32_t tensor, int64_t start) {
  NonFiniteValue first = {.worker = 0, .tensor = tensor, .element = start};
  for (size_t r = 0; r < block.pushes.size(); ++r) {
    const std::span<float> values = block.values(r);
    const auto found = std::find_if(values.begin(), values.end(),
                                    [](float value) { return !std::isfinite(value); });
    if (found == values.end()) continue;
    first.worker = static_cast<int32_t>(r);
    first.element += found - values.begin();
    break;
  }
  return first;
}

}  // namespace

void SumInRankOrder(std::span<const Staging* const> pushes, int64_t begin, int64_t count,
                    float* sum) {
  std::array<float, kSumElements> push;  // written before it is read
  pushes.front()->Read(begin, count, sum);
  for (const Staging* const next : pushes.subspan(1)) {
    next->Read(begin, count, push.data());
    Fold(Dtype::kF32, ReduceOp::kSum, push.data(), sum, count);
  }
}

std::optional<NonFiniteValue> SumExactly(const std::vector<TensorPart>& parts, float divisor,
                                         std::span<float* const> pushes) {
  std::optional<NonFiniteValue> first;
  int64_t offset = 0;  // in the shard
  for (const TensorPart& part : parts) {
    for (int64_t k = 0; k < part.count; k += kBlockElements) {
      const Block block = {pushes, offset + k, std::min(kBlockElements, part.count - k)};
      const int32_t exponent = SharedExponent(block);
      if (exponent == kNonFiniteBlock && !first.has_value()) {
        first = FirstNonFinite(block, part.tensor, part.offset + k);
      }
      SumBlock(block, exponent, divisor);
    }
    offset += part.count;
  }
  return first;
}

}  // namespace lockstep
