#include "ps_server/core/push_sum.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "base/numeric/exact.h"

namespace lockstep {
namespace {

using Pushes = std::span<const Staging* const>;
using Values = std::array<float, kBlockElements>;  // one push's elements of a block of EXACT

int32_t SharedExponent(Pushes pushes, const SumBlock& block) {
  Values values;  // written before it is read
  int32_t shared = kZeroBlock;
  for (const Staging* const push : pushes) {
    push->Read(block.begin, block.count, values.data());
    int32_t exponent = kZeroBlock;
    ExactExponents(Dtype::kF32, values.data(), {&block.count, 1}, {&exponent, 1});
    shared = std::max(shared, exponent);
  }
  return shared;
}

void SumGrid(Pushes pushes, const SumBlock& block, int32_t exponent, float divisor, float* sum) {
  const auto world_size = static_cast<int32_t>(pushes.size());
  Values values;                                 // written before it is read
  std::array<int64_t, kBlockElements> integers;  // likewise
  const std::span<int64_t> quantised(integers.data(), static_cast<size_t>(block.count));
  for (size_t r = 0; r < pushes.size(); ++r) {
    pushes[r]->Read(block.begin, block.count, values.data());
    ExactQuantise(Dtype::kF32, values.data(), {&block.count, 1}, {&exponent, 1},
                  {.world_size = world_size, .add = r > 0}, quantised);
  }
  ExactRestore(Dtype::kF32, quantised, {&block.count, 1}, {&exponent, 1},
               {.world_size = world_size, .divisor = divisor}, sum);
}

// REQUIRES: the block has such a value.
NonFiniteValue FirstNonFinite(Pushes pushes, const SumBlock& block) {
  NonFiniteValue first = {.worker = 0, .tensor = block.tensor, .element = block.offset};
  for (size_t r = 0; r < pushes.size(); ++r) {
    Values values;  // written before it is read
    pushes[r]->Read(block.begin, block.count, values.data());
    const auto end = values.begin() + block.count;
    const auto found =
        std::find_if(values.begin(), end, [](float value) { return !std::isfinite(value); });
    if (found == end) continue;
    first.worker = static_cast<int32_t>(r);
    first.element += found - values.begin();
    break;
  }
  return first;
}

}  // namespace

std::vector<SumBlock> SumBlocksOf(const std::vector<TensorPart>& parts) {
  std::vector<SumBlock> blocks;
  int64_t begin = 0;  // of the part, in the shard
  for (const TensorPart& part : parts) {
    for (int64_t k = 0; k < part.count; k += kSumElements) {
      const int64_t count = std::min(kSumElements, part.count - k);
      blocks.push_back({begin + k, count, part.tensor, part.offset + k});
    }
    begin += part.count;
  }
  return blocks;
}

void SumInRankOrder(Pushes pushes, const SumBlock& block, float* sum) {
  pushes.front()->Read(block.begin, block.count, sum);
  for (const Staging* const next : pushes.subspan(1)) next->AddTo(block.begin, block.count, sum);
}

std::optional<NonFiniteValue> SumExactly(Pushes pushes, const SumBlock& block, float divisor,
                                         float* sum) {
  std::optional<NonFiniteValue> first;
  for (int64_t k = 0; k < block.count; k += kBlockElements) {
    const SumBlock grid = {block.begin + k, std::min(kBlockElements, block.count - k), block.tensor,
                           block.offset + k};
    const int32_t exponent = SharedExponent(pushes, grid);
    if (exponent == kNonFiniteBlock && !first.has_value()) first = FirstNonFinite(pushes, grid);
    SumGrid(pushes, grid, exponent, divisor, sum + k);
  }
  return first;
}

}  // namespace lockstep
