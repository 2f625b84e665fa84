#include "allreduce/cuda/entry.h"

namespace lockstep::gpu {

const void* PullFunction(Dtype dtype, ReduceOp op) { return InstanceOf<Kernel::kPull>(dtype, op); }

}  // namespace lockstep::gpu
