#include "base/numeric/support.h"

#include <array>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace lockstep {
namespace {

constexpr std::array kDtypes = {Dtype::kF32, Dtype::kF64, Dtype::kF16, Dtype::kBf16,
                                Dtype::kI32, Dtype::kI64, Dtype::kU8};
constexpr std::array kOps = {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMin, ReduceOp::kMax,
                             ReduceOp::kProd};

bool IsFloat(Dtype dtype) {
  return dtype == Dtype::kF32 || dtype == Dtype::kF64 || dtype == Dtype::kF16 ||
         dtype == Dtype::kBf16;
}

template <typename Values, typename Value>
bool Contains(const Values& values, Value wanted) {
  for (const Value value : values) {
    if (value == wanted) return true;
  }
  return false;
}

std::string OpsOf(Dtype dtype) {
  std::vector<std::string> names;
  for (const ReduceOp op : kOps) {
    if (Supports(dtype, op)) names.emplace_back(NameOf(op));
  }
  return absl::StrJoin(names, ", ");
}

std::string Named(Dtype dtype) {
  const Dtype wide = AccumulatesIn(dtype);
  return wide == dtype ? NameOf(dtype) : absl::StrCat(NameOf(dtype), " (in ", NameOf(wide), ")");
}

}  // namespace

bool Supports(Dtype dtype, ReduceOp op) {
  return Contains(kDtypes, dtype) && Contains(kOps, op) && (op != ReduceOp::kAvg || IsFloat(dtype));
}

Dtype AccumulatesIn(Dtype dtype) {
  return dtype == Dtype::kF16 || dtype == Dtype::kBf16 ? Dtype::kF32 : dtype;
}

std::string SupportText() {
  std::vector<std::string> lines;  // dtypes with the same reductions stand together
  for (size_t first = 0; first < kDtypes.size();) {
    std::vector<std::string> names;
    size_t next = first;
    while (next < kDtypes.size() && OpsOf(kDtypes[next]) == OpsOf(kDtypes[first])) {
      names.push_back(Named(kDtypes[next++]));
    }
    lines.push_back(absl::StrCat(absl::StrJoin(names, ", "),
                                 IsFloat(kDtypes[first]) ? "" : " (wrap)", ": ",
                                 OpsOf(kDtypes[first])));
    first = next;
  }
  return absl::StrJoin(lines, "; ");
}

}  // namespace lockstep
