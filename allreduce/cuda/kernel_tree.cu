#include "allreduce/cuda/entry.h"

namespace lockstep::gpu {

const void* TreeFunction(Dtype dtype, ReduceOp op) { return InstanceOf<Kernel::kTree>(dtype, op); }

}  // namespace lockstep::gpu
