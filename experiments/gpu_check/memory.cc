#include "experiments/gpu_check/memory.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/numeric/half.h"

namespace lockstep::gpu {
namespace {

constexpr int64_t kBesideBytes = 64;
constexpr int kPoison = 0xff;
constexpr std::chrono::milliseconds kCopy(20'000);  // of gigabytes, through pageable memory

// PROD: factors that are mostly 1; AVG: the ranks' parts differ by multiples of their number.
int64_t ValueOf(const CallSpec& call, int64_t rank, int64_t index, int64_t ranks) {
  if (call.op == ReduceOp::kProd) return rank < 3 && (index + rank) % 3 == 0 ? 2 : 1;
  if (call.op == ReduceOp::kAvg) return index % 4 + ranks * (rank % 3 - 1);
  return (index * 7 + rank * 3) % 11 - 5;
}

int64_t ExpectedOf(const CallSpec& call, int64_t index, int32_t ranks) {
  int64_t result = ValueOf(call, 0, index, ranks);
  for (int32_t rank = 1; rank < ranks; ++rank) {
    const int64_t value = ValueOf(call, rank, index, ranks);
    switch (call.op) {
      case ReduceOp::kMin:
        result = std::min(result, value);
        break;
      case ReduceOp::kMax:
        result = std::max(result, value);
        break;
      case ReduceOp::kProd:
        result *= value;
        break;
      default:
        result += value;
    }
  }
  return call.op == ReduceOp::kAvg ? result / ranks : result;
}

template <typename T>
void Put(T value, int64_t index, std::vector<std::byte>* elements) {
  std::memcpy(elements->data() + index * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

void PutValue(Dtype dtype, int64_t value, int64_t index, std::vector<std::byte>* elements) {
  switch (dtype) {
    case Dtype::kF16:
      return Put(F32ToF16(static_cast<float>(value)), index, elements);
    case Dtype::kBf16:
      return Put(F32ToBf16(static_cast<float>(value)), index, elements);
    case Dtype::kI32:
      return Put(static_cast<int32_t>(value), index, elements);
    case Dtype::kI64:
      return Put(value, index, elements);
    default:
      return Put(static_cast<float>(value), index, elements);
  }
}

template <typename Value>
std::vector<std::byte> Elements(const CallSpec& call, const Value& value) {
  std::vector<std::byte> elements(static_cast<size_t>(call.count * SizeOf(call.dtype)));
  for (int64_t i = 0; i < call.count; ++i) PutValue(call.dtype, value(i), i, &elements);
  return elements;
}

}  // namespace

std::vector<std::byte> InputOf(const CallSpec& call, int32_t rank, int32_t ranks) {
  return Elements(call, [&](int64_t i) { return ValueOf(call, rank, i, ranks); });
}

std::vector<std::byte> ResultOf(const CallSpec& call, int32_t ranks) {
  return Elements(call, [&](int64_t i) { return ExpectedOf(call, i, ranks); });
}

Answer CheckMemory::Make(Runtime* runtime, const std::vector<int>& devices, int64_t bytes,
                         std::unique_ptr<CheckMemory>* made) {
  std::unique_ptr<CheckMemory> memory(new CheckMemory(runtime));
  memory->bytes_ = bytes + 2 * kBesideBytes;
  Answer answer;
  for (const int device : devices) {
    Room& room = memory->rooms_.emplace_back();
    room.device = device;
    if (answer.ok()) answer = runtime->MakeStream(device, &room.stream);
    for (std::byte** address : {&room.input, &room.output}) {
      if (answer.ok()) answer = runtime->Allocate(device, memory->bytes_, address);
    }
  }
  if (answer.ok()) *made = std::move(memory);
  return answer;
}

CheckMemory::~CheckMemory() {
  for (const Room& room : rooms_) {
    if (room.stream != nullptr) runtime_.DestroyStream(room.device, room.stream);
    for (std::byte* const address : {room.input, room.output}) {
      if (address != nullptr) runtime_.Free(room.device, address);
    }
  }
}

Answer CheckMemory::Copy(const Room& room, std::byte* target, const std::byte* source,
                         size_t bytes) const {
  Answer answer =
      runtime_.Copy(room.device, room.stream, target, source, static_cast<int64_t>(bytes));
  if (!answer.ok()) return answer;
  return AwaitStream(&runtime_, room.device, room.stream, kCopy, "copying a buffer");
}

std::vector<const std::byte*> CheckMemory::Inputs(int64_t misaligned) const {
  std::vector<const std::byte*> inputs;
  for (const Room& room : rooms_) inputs.push_back(room.input + misaligned);
  return inputs;
}

std::vector<std::byte*> CheckMemory::Outputs(int64_t misaligned, bool in_place) const {
  std::vector<std::byte*> outputs;
  for (const Room& room : rooms_) {
    outputs.push_back((in_place ? room.input : room.output) + misaligned);
  }
  return outputs;
}

Answer CheckMemory::Fill(const CallSpec& call, int64_t misaligned) {
  const auto ranks = static_cast<int32_t>(rooms_.size());
  for (int32_t rank = 0; rank < ranks; ++rank) {
    const Room& room = rooms_[static_cast<size_t>(rank)];
    const std::vector<std::byte> input = InputOf(call, rank, ranks);
    const auto used = static_cast<size_t>(
        std::min(bytes_, static_cast<int64_t>(input.size()) + misaligned + kBesideBytes));
    std::vector<std::byte> filled(used, static_cast<std::byte>(kPoison));
    Answer answer = Copy(room, room.output, filled.data(), used);
    std::copy(input.begin(), input.end(), filled.begin() + misaligned);
    if (answer.ok()) answer = Copy(room, room.input, filled.data(), used);
    if (!answer.ok()) return answer;
  }
  return {};
}

Answer CheckMemory::Compare(const CallSpec& call, int64_t misaligned, bool in_place,
                            std::string* wrong) const {
  const auto ranks = static_cast<int32_t>(rooms_.size());
  const std::vector<std::byte> result = ResultOf(call, ranks);
  std::vector<std::byte> expected(result.size() + static_cast<size_t>(misaligned + kBesideBytes),
                                  static_cast<std::byte>(kPoison));
  std::copy(result.begin(), result.end(), expected.begin() + misaligned);
  std::vector<std::byte> got(expected.size());
  for (int32_t rank = 0; rank < ranks; ++rank) {
    const std::byte* const from = Outputs(0, in_place)[static_cast<size_t>(rank)];
    Answer copied = Copy(rooms_[static_cast<size_t>(rank)], got.data(), from, got.size());
    if (!copied.ok()) return copied;
    const auto differs = std::mismatch(got.begin(), got.end(), expected.begin());
    if (differs.first == got.end()) continue;
    const int64_t byte = differs.first - got.begin() - misaligned;
    *wrong = "rank " + std::to_string(rank) + ": wrong from byte " + std::to_string(byte) + " of " +
             std::to_string(result.size());
    return {};
  }
  wrong->clear();
  return {};
}

}  // namespace lockstep::gpu
