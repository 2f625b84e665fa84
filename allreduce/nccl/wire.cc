#include "allreduce/nccl/wire.h"

#include <bit>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "base/numeric/element.h"

namespace lockstep::nccl {
namespace {

// A float type as integers: its Bits as it is stored, `Key` as it is sent.
template <typename Element, typename Sent>
struct Float : Element {
  using Key = Sent;
};
using F32 = Float<numeric::Native<float>, int32_t>;
using F64 = Float<numeric::Native<double>, int64_t>;
using F16 = Float<numeric::F16, int32_t>;
using Bf16 = Float<numeric::Bf16, int32_t>;

// What wins whatever the others bring.
template <typename Type>
constexpr typename Type::Key NanKey(ReduceOp op) {
  using Limit = std::numeric_limits<typename Type::Key>;
  return op == ReduceOp::kMax ? Limit::max() : Limit::min();
}

// Negative floats count down as their magnitude's bits count up: turning those round orders them.
template <typename Bits>
constexpr Bits Turn(Bits bits) {
  constexpr Bits kMagnitude = std::numeric_limits<Bits>::max();
  return bits >= 0 ? bits : static_cast<Bits>(bits ^ kMagnitude);
}

template <typename Type>
void ToKeys(const WireElements& elements, const void* source, std::byte* target) {
  using Bits = typename Type::Bits;
  using Key = typename Type::Key;
  const auto* const from = static_cast<const std::byte*>(source);
  for (int64_t i = 0; i < elements.count; ++i) {
    Bits bits = 0;
    std::memcpy(&bits, from + i * static_cast<int64_t>(sizeof(Bits)), sizeof(Bits));
    const auto magnitude = static_cast<Bits>(bits & std::numeric_limits<Bits>::max());
    const Key key = magnitude > Type::kInfinity ? NanKey<Type>(elements.op) : Key{Turn(bits)};
    std::memcpy(target + i * static_cast<int64_t>(sizeof(Key)), &key, sizeof(Key));
  }
}

template <typename Type>
void FromKeys(const WireElements& elements, const std::byte* source, void* target) {
  using Bits = typename Type::Bits;
  using Key = typename Type::Key;
  auto* const to = static_cast<std::byte*>(target);
  for (int64_t i = 0; i < elements.count; ++i) {
    Key key = 0;
    std::memcpy(&key, source + i * static_cast<int64_t>(sizeof(Key)), sizeof(Key));
    const Bits bits = key == NanKey<Type>(elements.op) ? Type::kNan : Turn(static_cast<Bits>(key));
    std::memcpy(to + i * static_cast<int64_t>(sizeof(Bits)), &bits, sizeof(Bits));
  }
}

// body(a Float) for a dtype that is one.
template <typename Body>
void WithFloat(Dtype dtype, const Body& body) {
  switch (dtype) {
    case Dtype::kF32:
      return body(F32{});
    case Dtype::kF64:
      return body(F64{});
    case Dtype::kF16:
      return body(F16{});
    case Dtype::kBf16:
      return body(Bf16{});
    case Dtype::kI32:
    case Dtype::kI64:
    case Dtype::kU8:
      break;
  }
  CHECK(false) << NameOf(dtype) << " is no float";
}

DataType TypeOf(Dtype dtype, bool wraps) {
  switch (dtype) {
    case Dtype::kF32:
      return kFloat32;
    case Dtype::kF64:
      return kFloat64;
    case Dtype::kF16:
      return kFloat16;
    case Dtype::kBf16:
      return kBfloat16;
    case Dtype::kI32:
      return wraps ? kUint32 : kInt32;
    case Dtype::kI64:
      return wraps ? kUint64 : kInt64;
    case Dtype::kU8:
      break;
  }
  return kUint8;
}

bool IsInteger(Dtype dtype) {
  return dtype == Dtype::kI32 || dtype == Dtype::kI64 || dtype == Dtype::kU8;
}

RedOp OpOf(ReduceOp op) {
  switch (op) {
    case ReduceOp::kProd:
      return nccl::kProd;
    case ReduceOp::kMax:
      return nccl::kMax;
    case ReduceOp::kMin:
      return nccl::kMin;
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
      break;
  }
  return nccl::kSum;
}

}  // namespace

Wire WireOf(Dtype dtype, ReduceOp op) {
  const bool orders = op == ReduceOp::kMin || op == ReduceOp::kMax;
  Wire wire;
  wire.op = OpOf(op);
  wire.keys = orders && !IsInteger(dtype);
  if (wire.keys) {
    const bool wide = dtype == Dtype::kF64;
    wire.type = wide ? kInt64 : kInt32;
    wire.element_bytes = wide ? 8 : 4;
  } else {
    wire.type = TypeOf(dtype, /*wraps=*/!orders);
    wire.element_bytes = SizeOf(dtype);
  }
  return wire;
}

void ToWire(const WireElements& elements, const void* source, std::byte* target) {
  if (!WireOf(elements.dtype, elements.op).keys) {
    std::memcpy(target, source, static_cast<size_t>(elements.count * SizeOf(elements.dtype)));
    return;
  }
  WithFloat(elements.dtype, [&](auto type) { ToKeys<decltype(type)>(elements, source, target); });
}

void FromWire(const WireElements& elements, const std::byte* source, void* target) {
  if (!WireOf(elements.dtype, elements.op).keys) {
    std::memcpy(target, source, static_cast<size_t>(elements.count * SizeOf(elements.dtype)));
    return;
  }
  WithFloat(elements.dtype, [&](auto type) { FromKeys<decltype(type)>(elements, source, target); });
}

}  // namespace lockstep::nccl
