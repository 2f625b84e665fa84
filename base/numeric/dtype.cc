#include "base/numeric/dtype.h"

namespace lockstep {

const char* NameOf(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF32:
      return "f32";
    case Dtype::kI64:
      return "i64";
    case Dtype::kF64:
      return "f64";
    case Dtype::kF16:
      return "f16";
    case Dtype::kBf16:
      return "bf16";
    case Dtype::kI32:
      return "i32";
    case Dtype::kU8:
      return "u8";
  }
  return "unknown dtype";  // a byte from the wire may be any number
}

const char* NameOf(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kMin:
      return "min";
    case ReduceOp::kMax:
      return "max";
    case ReduceOp::kProd:
      return "prod";
    case ReduceOp::kAvg:
      return "avg";
  }
  return "unknown reduction";
}

}  // namespace lockstep
