#include "experiments/bench/values.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <limits>
#include <vector>

#include "base/numeric/half.h"

namespace lockstep {
namespace {

constexpr int64_t kPeriod = 4099;  // prime: a chunk that stands elsewhere is a wrong one

// Whole numbers from 1 on; products stay at 1 and 2.
int64_t InputAt(int rank, ReduceOp op, int64_t index) {
  const int64_t seed = index * 7 + index / 13 + int64_t{rank} * 5;
  return op == ReduceOp::kProd ? 1 + (seed % 17 == 0 ? 1 : 0) : 1 + seed % 17;
}

// All arithmetic in double is exact here, but for the one division of AVG, which a narrower type
// makes from its own sum; f16 and bf16 divide in f32.
double ResultAt(int contributors, ReduceOp op, int64_t index) {
  double result = static_cast<double>(InputAt(0, op, index));
  for (int rank = 1; rank < contributors; ++rank) {
    const auto input = static_cast<double>(InputAt(rank, op, index));
    if (op == ReduceOp::kSum || op == ReduceOp::kAvg) result += input;
    if (op == ReduceOp::kProd) result *= input;
    if (op == ReduceOp::kMin) result = std::min(result, input);
    if (op == ReduceOp::kMax) result = std::max(result, input);
  }
  return result;
}

template <typename T>
void Put(T value, std::byte* to) {
  std::memcpy(to, &value, sizeof(value));
}

template <typename Float>
Float Divided(double sum, int divisor) {
  return static_cast<Float>(sum) / static_cast<Float>(divisor);
}

// `value` / `divisor` as an element. Integers wrap.
void PutElement(Dtype dtype, double value, int divisor, std::byte* to) {
  switch (dtype) {
    case Dtype::kF32:
      return Put(Divided<float>(value, divisor), to);
    case Dtype::kF64:
      return Put(Divided<double>(value, divisor), to);
    case Dtype::kF16:
      return Put(F32ToF16(Divided<float>(value, divisor)), to);
    case Dtype::kBf16:
      return Put(F32ToBf16(Divided<float>(value, divisor)), to);
    case Dtype::kI32:
      return Put(static_cast<int32_t>(static_cast<int64_t>(value)), to);
    case Dtype::kI64:
      return Put(static_cast<int64_t>(value), to);
    case Dtype::kU8:
      return Put(static_cast<uint8_t>(static_cast<int64_t>(value)), to);
  }
}

// Elements 0..kPeriod-1 of what `value(index)` gives; element i of a buffer is that of i % kPeriod.
template <typename Value>
std::vector<std::byte> Pattern(Dtype dtype, int divisor, const Value& value) {
  const auto size = static_cast<size_t>(SizeOf(dtype));
  std::vector<std::byte> pattern(size * static_cast<size_t>(kPeriod));
  for (int64_t index = 0; index < kPeriod; ++index) {
    PutElement(dtype, value(index), divisor, pattern.data() + static_cast<size_t>(index) * size);
  }
  return pattern;
}

// Of an integer type; infinity for floats.
double GreatestOf(Dtype dtype) {
  switch (dtype) {
    case Dtype::kU8:
      return std::numeric_limits<uint8_t>::max();
    case Dtype::kI32:
      return std::numeric_limits<int32_t>::max();
    case Dtype::kI64:
      return static_cast<double>(std::numeric_limits<int64_t>::max());
    default:
      return std::numeric_limits<double>::infinity();
  }
}

}  // namespace

void FillInput(int rank, Dtype dtype, ReduceOp op, void* data, int64_t count) {
  const std::vector<std::byte> pattern = Pattern(
      dtype, 1, [&](int64_t index) { return static_cast<double>(InputAt(rank, op, index)); });
  for (int64_t first = 0; first < count; first += kPeriod) {
    const int64_t elements = std::min(kPeriod, count - first);
    std::memcpy(static_cast<std::byte*>(data) + first * SizeOf(dtype), pattern.data(),
                static_cast<size_t>(elements * SizeOf(dtype)));
  }
}

int64_t FirstWrong(int contributors, Dtype dtype, ReduceOp op, const void* data, int64_t count) {
  const int divisor = op == ReduceOp::kAvg ? contributors : 1;
  const std::vector<std::byte> pattern =
      Pattern(dtype, divisor, [&](int64_t index) { return ResultAt(contributors, op, index); });
  const auto size = static_cast<size_t>(SizeOf(dtype));
  const auto* const bytes = static_cast<const std::byte*>(data);
  for (int64_t first = 0; first < count; first += kPeriod) {
    const auto elements = static_cast<size_t>(std::min(kPeriod, count - first));
    const std::byte* const block = bytes + static_cast<size_t>(first) * size;
    if (std::memcmp(block, pattern.data(), elements * size) == 0) continue;
    for (size_t i = 0; i < elements; ++i) {
      if (std::memcmp(block + i * size, pattern.data() + i * size, size) != 0) {
        return first + static_cast<int64_t>(i);
      }
    }
  }
  return -1;
}

int64_t FirstWrapped(int contributors, Dtype dtype, ReduceOp op) {
  for (int64_t index = 0; index < kPeriod; ++index) {
    if (ResultAt(contributors, op, index) > GreatestOf(dtype)) return index;
  }
  return -1;
}

}  // namespace lockstep
