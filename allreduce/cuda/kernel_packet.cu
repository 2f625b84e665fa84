#include "allreduce/cuda/entry.h"

namespace lockstep::gpu {

const void* PacketFunction(Dtype dtype, ReduceOp op) {
  return InstanceOf<Kernel::kPacket>(dtype, op);
}

}  // namespace lockstep::gpu
