#include "tests/allreduce/cuda/kernel_data.h"

#include <algorithm>

#include "tests/allreduce/elements.h"

namespace lockstep::gpu {
namespace {

// PROD: few factors that are not 1, so that products fit into every dtype. AVG: all ranks' values
// are congruent modulo the number of ranks, so that the mean is whole.
int64_t ValueOf(const CallSpec& call, int64_t rank, int64_t index, int64_t ranks) {
  const int64_t mixed = (index * 7 + rank * 3) % 11;
  if (call.op == ReduceOp::kProd) return rank < 3 && (index + rank) % 3 == 0 ? 2 : 1;
  if (call.op == ReduceOp::kAvg) return index % 4 + ranks * (rank % 3 - 1);
  return mixed - 5;
}

int64_t Expected(const CallSpec& call, int64_t index, int32_t ranks) {
  int64_t result = ValueOf(call, 0, index, ranks);
  for (int32_t rank = 1; rank < ranks; ++rank) {
    const int64_t value = ValueOf(call, rank, index, ranks);
    if (call.op == ReduceOp::kMin) {
      result = std::min(result, value);
    } else if (call.op == ReduceOp::kMax) {
      result = std::max(result, value);
    } else if (call.op == ReduceOp::kProd) {
      result *= value;
    } else {
      result += value;
    }
  }
  return result;
}

}  // namespace

KernelData::KernelData(int32_t ranks, const CallSpec& call, int64_t misaligned, bool in_place)
    : ranks_(ranks), spec_(call), misaligned_(misaligned), in_place_(in_place) {
  for (int32_t rank = 0; rank < ranks; ++rank) {
    inputs_.push_back(Poisoned());
    if (!in_place) outputs_.push_back(Poisoned());
    for (int64_t i = 0; i < call.count; ++i) {
      PutElement(call.dtype, ValueOf(call, rank, i, ranks), i, input(rank));
    }
  }
  expected_.resize(static_cast<size_t>(Bytes()));
  for (int64_t i = 0; i < call.count; ++i) {
    int64_t expected = Expected(call, i, ranks);
    if (call.op == ReduceOp::kAvg) expected /= ranks;
    PutElement(call.dtype, expected, i, expected_.data());
  }
}

KernelData::Buffer KernelData::Poisoned() const {
  const auto bytes = static_cast<size_t>(Bytes() + 2 * kGuardBytes + misaligned_);
  Buffer buffer(bytes / sizeof(Chunk) + 1);
  std::memset(buffer.data(), static_cast<int>(kPoison), buffer.size() * sizeof(Chunk));
  return buffer;
}

HostCall KernelData::call() const {
  auto& self = const_cast<KernelData&>(*this);  // the kernel's, for the time of the call
  HostCall call{.spec = spec_, .inputs = {}, .outputs = {}};
  for (int32_t rank = 0; rank < ranks_; ++rank) {
    call.inputs.push_back(self.Start(&self.inputs_, rank));
    call.outputs.push_back(self.Start(in_place_ ? &self.inputs_ : &self.outputs_, rank));
  }
  return call;
}

const std::byte* KernelData::output(int32_t rank) const {
  return call().outputs[static_cast<size_t>(rank)];
}

bool KernelData::Holds(const Buffer& buffer, const std::vector<std::byte>& expected) const {
  const auto* const begin = reinterpret_cast<const std::byte*>(buffer.data());
  const std::byte* const end = begin + buffer.size() * sizeof(Chunk);
  const std::byte* const start = begin + kGuardBytes + misaligned_;
  const auto poisoned = [](std::byte byte) { return byte == kPoison; };
  return std::all_of(begin, start, poisoned) &&
         std::equal(expected.begin(), expected.end(), start) &&
         std::all_of(start + expected.size(), end, poisoned);
}

bool KernelData::AllRight() const {
  const std::vector<Buffer>& results = in_place_ ? inputs_ : outputs_;
  return std::all_of(results.begin(), results.end(),
                     [&](const Buffer& result) { return Holds(result, expected_); });
}

bool KernelData::Untouched() const {
  return std::all_of(outputs_.begin(), outputs_.end(),
                     [&](const Buffer& output) { return Holds(output, {}); });
}

}  // namespace lockstep::gpu
