#include "base/numeric/dtype.h"

namespace lockstep {

const char* NameOf(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF32:
      return "f32";
    case Dtype::kI64:
      return "i64";
  }
  return "unknown dtype";  // a byte from the wire may be any number
}

const char* NameOf(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum";
  }
  return "unknown reduction";
}

}  // namespace lockstep
