// engine_checks.h: what any engine's communicator must do, from inside one rank: every reduction of
// every dtype, the other collectives, groups. For tests of other libraries' engines, in threads and
// in processes alike. Returns the first thing that is wrong.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "allreduce/communicator.h"
#include "base/numeric/support.h"
#include "base/status.h"
#include "tests/allreduce/elements.h"

namespace lockstep {

// Whole numbers; their mean over n ranks is one, too.
inline int64_t EngineInput(int n, int rank, int64_t index) { return n * (1 + (index + rank) % 3); }

inline int64_t EngineResult(int n, ReduceOp op, int64_t index) {
  int64_t result = EngineInput(n, 0, index);
  for (int rank = 1; rank < n; ++rank) {
    const int64_t value = EngineInput(n, rank, index);
    if (op == ReduceOp::kSum || op == ReduceOp::kAvg) result += value;
    if (op == ReduceOp::kMin) result = std::min(result, value);
    if (op == ReduceOp::kMax) result = std::max(result, value);
    if (op == ReduceOp::kProd) result *= value;
  }
  return op == ReduceOp::kAvg ? result / n : result;
}

class EngineBuffer {
 public:
  EngineBuffer(Dtype dtype, int64_t count)
      : dtype_(dtype), count_(count), bytes_(static_cast<size_t>((count + 1) * SizeOf(dtype))) {
    PutElement(dtype, 7, count, bytes_.data());  // a guard: no call may touch it
  }
  void* data() { return bytes_.data(); }
  void Put(int64_t index, int64_t value) { PutElement(dtype_, value, index, bytes_.data()); }
  bool Holds(int64_t index, int64_t value) const {
    std::vector<std::byte> expected(static_cast<size_t>(SizeOf(dtype_)));
    PutElement(dtype_, value, 0, expected.data());
    return std::memcmp(expected.data(), bytes_.data() + index * SizeOf(dtype_), expected.size()) ==
           0;
  }
  // value(index) in [first, first + count), and the guard.
  template <typename Value>
  absl::Status Check(const std::string& what, int64_t first, int64_t count,
                     const Value& value) const {
    for (int64_t i = first; i < first + count; ++i) {
      if (!Holds(i, value(i))) {
        return absl::DataLossError(absl::StrCat(what, ": element ", i, " of ", count_, " ",
                                                NameOf(dtype_), " is not ", value(i)));
      }
    }
    if (Holds(count_, 7)) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(what, ": wrote beyond ", count_, " elements"));
  }

 private:
  const Dtype dtype_;
  const int64_t count_;
  std::vector<std::byte> bytes_;
};

inline absl::Status CheckReduction(Communicator* c, Dtype dtype, ReduceOp op, int64_t count) {
  const int n = c->world_size();
  const auto fresh = [&] {
    EngineBuffer buffer(dtype, count);
    for (int64_t i = 0; i < count; ++i) buffer.Put(i, EngineInput(n, c->rank(), i));
    return buffer;
  };
  const auto result = [&](int64_t i) { return EngineResult(n, op, i); };
  EngineBuffer all = fresh();
  RETURN_IF_ERROR(c->AllReduce(all.data(), count, dtype, op));
  RETURN_IF_ERROR(all.Check(absl::StrCat("all_reduce ", NameOf(op)), 0, count, result));
  const int root = n - 1;
  EngineBuffer one = fresh();
  RETURN_IF_ERROR(c->Reduce(one.data(), count, dtype, op, root));
  if (c->rank() == root) {
    RETURN_IF_ERROR(one.Check(absl::StrCat("reduce ", NameOf(op)), 0, count, result));
  }
  EngineBuffer parts = fresh();
  RETURN_IF_ERROR(c->ReduceScatter(parts.data(), count, dtype, op));
  const ElementRange own = PartOf(count, n, c->rank());
  return parts.Check(absl::StrCat("reduce_scatter ", NameOf(op)), own.first, own.count, result);
}

inline absl::Status CheckMoves(Communicator* c, Dtype dtype, int64_t count) {
  const int n = c->world_size();
  const int root = n / 2;
  const auto value = [](int64_t i) { return i % 100; };
  EngineBuffer sent(dtype, count);
  for (int64_t i = 0; i < count; ++i) sent.Put(i, c->rank() == root ? value(i) : 101);
  RETURN_IF_ERROR(c->Broadcast(sent.data(), count, dtype, root));
  RETURN_IF_ERROR(sent.Check("broadcast", 0, count, value));
  EngineBuffer gathered(dtype, count);
  const ElementRange own = PartOf(count, n, c->rank());
  for (int64_t i = own.first; i < own.first + own.count; ++i) gathered.Put(i, value(i));
  RETURN_IF_ERROR(c->AllGather(gathered.data(), count, dtype));
  RETURN_IF_ERROR(gathered.Check("all_gather", 0, count, value));
  return c->Barrier();
}

// `without`: a dtype that is moved, but not reduced.
inline absl::Status CheckCollectives(Communicator* c, std::optional<Dtype> without = {}) {
  for (const Dtype dtype : kAllDtypes) {
    for (const int64_t count : {0, 1, 3, 1000}) {
      for (const ReduceOp op :
           {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProd}) {
        if (dtype == without || !Supports(dtype, op)) continue;
        RETURN_IF_ERROR(CheckReduction(c, dtype, op, count));
      }
      RETURN_IF_ERROR(CheckMoves(c, dtype, count));
    }
  }
  return absl::OkStatus();
}

// All ranks but 0, in reverse, and what they do while rank 0 waits.
inline absl::Status CheckGroup(Communicator* c) {
  std::vector<int> ranks;
  for (int rank = c->world_size() - 1; rank > 0; --rank) ranks.push_back(rank);
  ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> group, c->Group(ranks));
  if ((group == nullptr) != (c->rank() == 0)) return absl::DataLossError("group: wrong members");
  if (group != nullptr) {
    if (group->rank() != c->world_size() - 1 - c->rank()) {
      return absl::DataLossError("group: wrong order");
    }
    RETURN_IF_ERROR(CheckReduction(group.get(), Dtype::kF32, ReduceOp::kSum, 10));
  }
  return c->Barrier();
}

// MIN and MAX: NaN wins, and -0 < +0, as in base/numeric/fold.h.
inline absl::Status CheckNanAndZero(Communicator* c) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const bool last = c->rank() == c->world_size() - 1;
  std::vector<float> least = {last ? nan : 1.0F, last ? -0.0F : 0.0F};
  std::vector<float> most = {c->rank() == 0 ? nan : 1.0F, last ? -0.0F : 0.0F};
  RETURN_IF_ERROR(c->AllReduce(least.data(), 2, Dtype::kF32, ReduceOp::kMin));
  RETURN_IF_ERROR(c->AllReduce(most.data(), 2, Dtype::kF32, ReduceOp::kMax));
  if (!std::isnan(least[0]) || !std::isnan(most[0])) return absl::DataLossError("NaN was lost");
  if (!std::signbit(least[1]) || std::signbit(most[1])) return absl::DataLossError("-0 < +0");
  return absl::OkStatus();
}

// CASES R19: a sum of integers that is too large wraps modulo 2^bits, as base/numeric/fold.h says,
// whatever the library behind the engine. Every rank brings 3/4 of the greatest value.
inline absl::Status CheckWrap(Communicator* c) {
  constexpr int32_t kLarge = std::numeric_limits<int32_t>::max() / 4 * 3;
  constexpr int64_t kLarger = std::numeric_limits<int64_t>::max() / 4 * 3;
  const auto n = static_cast<uint32_t>(c->world_size());
  int32_t narrow = kLarge;
  int64_t wide = kLarger;
  uint8_t byte = 192;
  RETURN_IF_ERROR(c->AllReduce(&narrow, 1, Dtype::kI32, ReduceOp::kSum));
  RETURN_IF_ERROR(c->AllReduce(&wide, 1, Dtype::kI64, ReduceOp::kSum));
  RETURN_IF_ERROR(c->AllReduce(&byte, 1, Dtype::kU8, ReduceOp::kSum));
  const bool wrapped = narrow == static_cast<int32_t>(n * static_cast<uint32_t>(kLarge)) &&
                       wide == static_cast<int64_t>(n * static_cast<uint64_t>(kLarger)) &&
                       byte == static_cast<uint8_t>(n * 192);
  return wrapped ? absl::OkStatus() : absl::DataLossError("an integer sum does not wrap");
}

}  // namespace lockstep
