#include "allreduce/cuda/entry.h"

namespace lockstep::gpu {

const void* DirectFunction(Dtype dtype, ReduceOp op) {
  return InstanceOf<Kernel::kDirect>(dtype, op);
}

}  // namespace lockstep::gpu
